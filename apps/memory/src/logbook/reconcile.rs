//! Reconciliation and counts of the outbox and its audits.

use std::{collections::BTreeMap, time::Duration};

use consign_kernel::MessageId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The options of reconciliation.
#[derive(Clone, Debug, PartialEq)]
pub struct ReconcileOptions {
    /// Rows that changed within this window are counted. Inconsistencies are found at any age.
    pub scan_window: Duration,
    /// Findings of each kind per call, oldest first.
    pub batch: u32,
    /// A lease is stale if it expired and was not renewed for this long. A live one is never touched.
    pub stale_after: Duration,
    /// Audits pending for longer are ended as failed.
    pub audit_timeout: Duration,
    /// Repair, or only report.
    pub is_repairing: bool,
    /// Whether stale leases are ended so that their rows are due again. A lease whose expiry would make its
    /// row dead is left to the next claim.
    pub is_rescheduling: bool,
    /// Delay until such rows are due.
    pub reschedule_delay: Duration,
}

impl Default for ReconcileOptions {
    fn default() -> Self {
        Self {
            scan_window: Duration::from_secs(24 * 3600),
            batch: 100,
            stale_after: Duration::from_secs(600),
            audit_timeout: Duration::from_secs(2 * 3600),
            is_repairing: true,
            is_rescheduling: true,
            reschedule_delay: Duration::ZERO,
        }
    }
}

/// The kind of an inconsistency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Issue {
    /// A sent row without its audit.
    SentMissingAudit,
    /// A dead row without its audit.
    DeadMissingAudit,
    /// A stale lease.
    StaleLock,
    /// An audit that stayed pending.
    HangingAudit,
    /// An audit of a row that does not exist and has not left. Reported, never repaired.
    MissingOutboxRow,
}

/// An inconsistency, and its repair.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The kind.
    pub issue: Issue,
    /// The outbox row.
    pub outbox_id: Option<MessageId>,
    /// The audit that is pending or was written.
    pub audit_id: Option<i64>,
    /// The worker of the stale lease.
    pub locked_by: Option<String>,
    /// When it was renewed last.
    pub locked_at: Option<Timestamp>,
    /// Whether it was repaired.
    pub fixed: bool,
    /// Whether the row was made due again.
    pub rescheduled: bool,
}

/// The result of one call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReconcileOutcome {
    /// Sent rows in the window.
    pub sent_count: u64,
    /// Dead rows in the window.
    pub dead_count: u64,
    /// Rows with a stale lease.
    pub stale_count: u64,
    /// The findings, oldest first.
    pub findings: Vec<Finding>,
    /// Whether another call would repair more.
    pub has_more: bool,
}

/// The outbox at a glance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutboxCounts {
    /// Rows not delivered yet.
    pub pending: u64,
    /// Delivered rows.
    pub sent: u64,
    /// Dead rows.
    pub dead: u64,
    /// Pending audits.
    pub pending_audits: u64,
}

/// The figures of the reliability report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryCounts {
    /// Rows by status: `pending`, `sent`, `dead`.
    pub outbox: BTreeMap<String, u64>,
    /// Rows that have left, by the status they had: `sent`, `dead`. They are not in `outbox`.
    pub departed: BTreeMap<String, u64>,
    /// The mean of the rows' retry counts.
    pub average_retry_count: f64,
    /// Pending rows by backend; rows without one are left out.
    pub pending_by_backend: BTreeMap<String, u64>,
    /// Age of the oldest pending row.
    pub oldest_pending_age_seconds: Option<f64>,
    /// Audits by action: `allow`, `redirect`, `reject`.
    pub audits: BTreeMap<String, u64>,
    /// Audits of the last 24 hours.
    pub audits_24h: u64,
    /// Audits by reason: `policy`, `openmemory_write_failed`, `outbox_flush_success`, `dedup_hit`, `other`.
    pub reasons: BTreeMap<String, u64>,
    /// Audits of `memory_store`, by action.
    pub writes: BTreeMap<String, u64>,
    /// Patches of repositories, and how many have an evidence URI.
    pub patch_blobs: (u64, u64),
    /// Attachments, and how many have a hash of 64 hex digits, which an evidence URI needs.
    pub attachments: (u64, u64),
    /// Audits with evidence, and how many have a reference that cannot be parsed.
    pub evidence: (u64, u64),
    /// Audits of the last 7 days: all, in strict mode, in compat mode, with evidence of version 2.
    pub modes_7d: (u64, u64, u64, u64),
    /// Writes rejected or shortened as a diff, as a log, as either; and as either in the last 24 hours.
    pub intercepted: (u64, u64, u64, u64),
    /// Pending audits.
    pub pending_audits: u64,
    /// Distinct rows named by `openmemory_write_failed` audits, and rows deferred by requests, also those that
    /// have left: equal unless a row or audit is missing (invariant 1).
    pub deferred: (u64, u64),
}
