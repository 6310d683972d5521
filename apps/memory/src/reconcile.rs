//! Comparing the outbox with its audits, now and then.

use std::{fmt, sync::Arc, time::Duration};

use consign_kernel::Result;
use jiff::Timestamp;
use metrics::{counter, gauge};
use serde::Serialize;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{error, info, warn};

use crate::{
    Finding, Issue, Logbook, MemoryOptions, OutboxCounts, ReconcileOptions, Reconciled,
    metrics::{OUTBOX, PENDING_AUDITS, RECONCILED_TOTAL},
};

/// Calls of one pass at most: a pass that never ends is not a pass.
const CALLS_MAX: usize = 1_000;

/// One thing that did not fit, as the report shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReconcileDetail {
    /// About which row.
    pub outbox_id: Option<i64>,
    /// How the row stands: `sent`, `dead`, `pending`; none: there is no row.
    pub status: Option<&'static str>,
    /// `missing_audit`, `stale_lock`, `hanging_audit` or `missing_outbox_row`.
    pub issue: &'static str,
    /// What the missing audit would have said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_reason: Option<&'static str>,
    /// Who had the lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locked_by: Option<String>,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locked_at: Option<Timestamp>,
    /// The audit it is about, or the one that was written.
    pub audit_id: Option<i64>,
    /// Whether it is repaired.
    pub fixed: bool,
    /// Whether the row is due again.
    pub rescheduled: bool,
}

impl From<&Finding> for ReconcileDetail {
    fn from(finding: &Finding) -> Self {
        let (status, issue, expected_reason) = match finding.issue {
            Issue::SentMissingAudit => {
                (Some("sent"), "missing_audit", Some("outbox_flush_success"))
            }
            Issue::DeadMissingAudit => (Some("dead"), "missing_audit", Some("outbox_flush_dead")),
            Issue::StaleLock => (Some("pending"), "stale_lock", None),
            Issue::HangingAudit => (None, "hanging_audit", None),
            Issue::MissingOutboxRow => (None, "missing_outbox_row", None),
        };
        Self {
            outbox_id: finding.outbox_id.map(|id| id.0),
            status,
            issue,
            expected_reason,
            locked_by: finding.locked_by.clone(),
            locked_at: finding.locked_at,
            audit_id: finding.audit_id,
            fixed: finding.fixed,
            rescheduled: finding.rescheduled,
        }
    }
}

/// What a pass found and did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "named as in the protocol; see Display")]
pub struct ReconcileReport {
    pub total_scanned: u64,
    pub sent_count: u64,
    pub dead_count: u64,
    pub stale_count: u64,
    pub sent_missing_audit: u64,
    pub dead_missing_audit: u64,
    pub stale_missing_audit: u64,
    pub sent_audit_fixed: u64,
    pub dead_audit_fixed: u64,
    pub stale_audit_fixed: u64,
    pub stale_rescheduled: u64,
    pub hanging_audits: u64,
    pub hanging_audits_fixed: u64,
    pub missing_outbox_rows: u64,
    /// Whether there was more than one pass looks at.
    pub has_more: bool,
    pub details: Vec<ReconcileDetail>,
}

impl ReconcileReport {
    /// Whether everything that did not fit was repaired.
    pub fn is_repaired(&self) -> bool {
        !self.has_more && self.details.iter().all(|detail| detail.fixed)
    }

    fn add(&mut self, found: &Reconciled) {
        self.sent_count += found.sent_count;
        self.dead_count += found.dead_count;
        self.stale_count += found.stale_count;
        self.total_scanned = self.sent_count + self.dead_count + self.stale_count;
        self.has_more = found.has_more;
        for finding in &found.findings {
            let fixed = u64::from(finding.fixed);
            let (missing, mended) = match finding.issue {
                Issue::SentMissingAudit => {
                    (&mut self.sent_missing_audit, &mut self.sent_audit_fixed)
                }
                Issue::DeadMissingAudit => {
                    (&mut self.dead_missing_audit, &mut self.dead_audit_fixed)
                }
                Issue::StaleLock => {
                    self.stale_rescheduled += u64::from(finding.rescheduled);
                    (&mut self.stale_missing_audit, &mut self.stale_audit_fixed)
                }
                Issue::HangingAudit => (&mut self.hanging_audits, &mut self.hanging_audits_fixed),
                Issue::MissingOutboxRow => {
                    self.missing_outbox_rows += 1;
                    continue;
                }
            };
            *missing += 1;
            *mended += fixed;
        }
        let details = found.findings.iter().map(ReconcileDetail::from);
        self.details.extend(details);
    }
}

impl fmt::Display for ReconcileReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "=== Outbox Reconcile Report ===")?;
        writeln!(f, "Total scanned: {}", self.total_scanned)?;
        let lines = [
            ("Sent", self.sent_missing_audit, self.sent_audit_fixed),
            ("Dead", self.dead_missing_audit, self.dead_audit_fixed),
        ];
        for (name, missing, fixed) in lines {
            writeln!(f, "{name}: missing audit {missing}, fixed {fixed}")?;
        }
        writeln!(
            f,
            "Stale: locks {}, audited {}, rescheduled {}",
            self.stale_missing_audit, self.stale_audit_fixed, self.stale_rescheduled
        )?;
        writeln!(
            f,
            "Hanging audits: {}, ended {}",
            self.hanging_audits, self.hanging_audits_fixed
        )?;
        write!(f, "Audits without a row: {}", self.missing_outbox_rows)
    }
}

/// Compares the outbox with its audits once, all of it.
pub async fn reconcile(
    logbook: &dyn Logbook,
    options: &ReconcileOptions,
) -> Result<ReconcileReport> {
    let mut report = ReconcileReport::default();
    for _ in 0..CALLS_MAX {
        let found = logbook.reconcile_memory(options).await?;
        tell(&found);
        report.add(&found);
        // Without a repair the next call would find the same again.
        let is_moving = found.findings.iter().any(|finding| finding.fixed);
        if !found.has_more || !is_moving {
            break;
        }
    }
    Ok(report)
}

impl MemoryOptions {
    /// How to compare the outbox with its audits.
    pub fn reconcile(&self) -> ReconcileOptions {
        ReconcileOptions {
            stale_after: Duration::from_secs(self.stale_threshold_seconds),
            audit_timeout: Duration::from_secs(self.pending_audit_timeout_seconds),
            ..ReconcileOptions::default()
        }
    }
}

/// Compares the outbox with its audits now and then, and keeps the gauges. Runs until it is
/// dropped; returns at once if the options say that only people do it.
pub async fn reconcile_loop(logbook: Arc<dyn Logbook>, options: MemoryOptions) {
    if options.reconcile_interval_seconds == 0 {
        return;
    }
    let mut ticks = interval(Duration::from_secs(options.reconcile_interval_seconds));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let options = options.reconcile();
    loop {
        ticks.tick().await;
        match reconcile(logbook.as_ref(), &options).await {
            Ok(report) if report.details.is_empty() => {}
            Ok(report) => info!(
                repaired = report.is_repaired(),
                "the outbox did not fit its audits: {report}"
            ),
            Err(error) => warn!(%error, "the outbox could not be compared with its audits"),
        }
        match logbook.outbox_counts().await {
            Ok(counts) => keep_gauges(&counts),
            Err(error) => warn!(%error, "the outbox could not be counted"),
        }
    }
}

fn keep_gauges(counts: &OutboxCounts) {
    for (status, count) in [
        ("pending", counts.pending),
        ("sent", counts.sent),
        ("dead", counts.dead),
    ] {
        gauge!(OUTBOX, "status" => status).set(count as f64);
    }
    gauge!(PENDING_AUDITS).set(counts.pending_audits as f64);
}

fn tell(found: &Reconciled) {
    for finding in &found.findings {
        let detail = ReconcileDetail::from(finding);
        counter!(RECONCILED_TOTAL, "issue" => detail.issue).increment(1);
        if finding.issue == Issue::MissingOutboxRow {
            let (audit_id, outbox_id) = (detail.audit_id, detail.outbox_id);
            error!(
                audit_id,
                outbox_id, "an audit speaks of a row of the outbox that is not there"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use consign_kernel::MessageId;

    use super::*;

    fn finding(issue: Issue, fixed: bool) -> Finding {
        Finding {
            issue,
            outbox_id: Some(MessageId(7)),
            audit_id: None,
            locked_by: None,
            locked_at: None,
            fixed,
            rescheduled: fixed && issue == Issue::StaleLock,
        }
    }

    /// Facts section 9.
    #[test]
    fn a_report_adds_up_and_says_whether_anything_is_left() {
        let mut report = ReconcileReport::default();
        assert!(report.is_repaired());
        report.add(&Reconciled {
            sent_count: 3,
            dead_count: 2,
            stale_count: 1,
            findings: vec![
                finding(Issue::SentMissingAudit, true),
                finding(Issue::DeadMissingAudit, true),
                finding(Issue::StaleLock, true),
                finding(Issue::HangingAudit, true),
            ],
            has_more: false,
        });
        assert!(report.is_repaired());
        assert_eq!(report.total_scanned, 6);
        assert_eq!((report.sent_missing_audit, report.sent_audit_fixed), (1, 1));
        assert_eq!((report.stale_audit_fixed, report.stale_rescheduled), (1, 1));
        report.add(&Reconciled {
            findings: vec![finding(Issue::MissingOutboxRow, false)],
            ..Reconciled::default()
        });
        assert!(!report.is_repaired(), "nobody repairs what is missing");
        let text = report.to_string();
        assert!(
            text.starts_with("=== Outbox Reconcile Report ===\nTotal scanned: 6\n"),
            "{text}"
        );
        assert!(text.ends_with("Audits without a row: 1"), "{text}");
    }
}
