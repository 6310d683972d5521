//! Reconciling the outbox with its audits, and counting both.

use std::{collections::BTreeMap, time::Duration};

use consign_kernel::MessageId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// How to reconcile.
#[derive(Clone, Debug, PartialEq)]
pub struct ReconcileOptions {
    /// How far back rows are counted, by when anything last happened to them. What does not fit is
    /// found however old it is.
    pub scan_window: Duration,
    /// How many findings of each kind in one call, oldest first.
    pub batch: u32,
    /// How long ago a lease must have been renewed last to be stale. One that is still live is never
    /// touched, however old.
    pub stale_after: Duration,
    /// How long an audit may be pending.
    pub audit_timeout: Duration,
    /// Whether to repair or only to report.
    pub is_repairing: bool,
    /// Whether stale leases are ended and their rows become due again; never one whose end would make
    /// its row dead, which the next claim decides.
    pub is_rescheduling: bool,
    /// How long such rows rest.
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

/// What does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Issue {
    /// A sent row without its audit.
    SentMissingAudit,
    /// A dead row without its audit.
    DeadMissingAudit,
    /// A lease that nobody renews.
    StaleLock,
    /// An audit that never ended.
    HangingAudit,
    /// An audit about a row that is not there. Reported, never repaired.
    MissingOutboxRow,
}

/// One thing that did not fit, and what was done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// What.
    pub issue: Issue,
    /// About which row.
    pub outbox_id: Option<MessageId>,
    /// The audit it is about, or the one that was written.
    pub audit_id: Option<i64>,
    /// Who had the lease.
    pub locked_by: Option<String>,
    /// Since when.
    pub locked_at: Option<Timestamp>,
    /// Whether it is repaired.
    pub fixed: bool,
    /// Whether the row is due again.
    pub rescheduled: bool,
}

/// The outcome of a pass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reconciled {
    /// Sent rows in the window that were looked at.
    pub sent_count: u64,
    /// Dead ones.
    pub dead_count: u64,
    /// Rows with a stale lease.
    pub stale_count: u64,
    /// What did not fit, oldest first.
    pub findings: Vec<Finding>,
    /// Whether there is more that calling again would repair.
    pub has_more: bool,
}

/// How the outbox stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutboxCounts {
    /// Rows that wait or are under way.
    pub pending: u64,
    /// Rows that were stored.
    pub sent: u64,
    /// Rows that were given up.
    pub dead: u64,
    /// Audits that are pending.
    pub pending_audits: u64,
}

/// The figures of the reliability report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryCounts {
    /// Rows by status: `pending`, `sent`, `dead`.
    pub outbox: BTreeMap<String, u64>,
    /// The mean of the rows' retry counts.
    pub average_retry_count: f64,
    /// Rows that wait, by the backend they are meant for; those that name none are not among them.
    pub pending_by_backend: BTreeMap<String, u64>,
    /// How old the oldest pending row is.
    pub oldest_pending_age_seconds: Option<f64>,
    /// Audits by action: `allow`, `redirect`, `reject`.
    pub audits: BTreeMap<String, u64>,
    /// Audits of the last 24 hours.
    pub audits_24h: u64,
    /// Audits by reason: `policy`, `openmemory_write_failed`, `outbox_flush_success`, `dedup_hit`, `other`.
    pub reasons: BTreeMap<String, u64>,
    /// Audits of `memory_store`, by action.
    pub writes: BTreeMap<String, u64>,
    /// Patches of repositories, and those of them whose evidence URI is known.
    pub patch_blobs: (u64, u64),
    /// Attachments, and those of them whose evidence URI can be built (a hash of 64 hex digits).
    pub attachments: (u64, u64),
    /// Audits with evidence, and those of them with a reference that cannot be parsed.
    pub evidence: (u64, u64),
    /// Audits of the last 7 days: all, in strict mode, in compat mode, with evidence of version 2.
    pub modes_7d: (u64, u64, u64, u64),
    /// Writes refused or shortened because they were a diff, a log, either; and of the last 24 hours.
    pub intercepted: (u64, u64, u64, u64),
    /// Audits that are pending.
    pub pending_audits: u64,
    /// Distinct rows that `openmemory_write_failed` audits name, and rows that came with such a request:
    /// equal unless something was lost (invariant 1).
    pub deferred: (u64, u64),
}
