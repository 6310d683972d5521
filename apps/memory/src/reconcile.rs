//! Reconciliation of the outbox with its audits.

use std::{fmt, sync::Arc, time::Duration};

use consign_kernel::{By, Result};
use jiff::Timestamp;
use metrics::{counter, gauge};
use serde::Serialize;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{error, info, warn};

use crate::{
    Action, AuditEnd, AuditStatus, Correlation, Finding, Issue, Logbook, MemoryOptions,
    OutboxCounts, ReconcileOptions, ReconcileOutcome,
    audit_json::{AuditFacts, Operation},
    metrics::{OUTBOX, PENDING_AUDITS, RECONCILED_TOTAL},
};

/// Calls of one pass at most.
const CALLS_MAX: usize = 1_000;

/// A finding in the report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReconcileDetail {
    /// The outbox row.
    pub outbox_id: Option<i64>,
    /// `sent`, `dead` or `pending`; none if there is no row.
    pub status: Option<&'static str>,
    /// `missing_audit`, `stale_lock`, `hanging_audit` or `missing_outbox_row`.
    pub issue: &'static str,
    /// The reason of the missing audit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_reason: Option<&'static str>,
    /// The worker of the stale lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locked_by: Option<String>,
    /// When it was renewed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locked_at: Option<Timestamp>,
    /// The audit that is pending or was written.
    pub audit_id: Option<i64>,
    /// Whether it was repaired.
    pub fixed: bool,
    /// Whether the row was made due again.
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

/// The report of a pass.
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
    /// Whether findings are left for another pass.
    pub has_more: bool,
    pub details: Vec<ReconcileDetail>,
}

impl ReconcileReport {
    /// Whether every finding was repaired.
    pub fn is_repaired(&self) -> bool {
        !self.has_more && self.details.iter().all(|detail| detail.fixed)
    }

    fn add(&mut self, found: &ReconcileOutcome) {
        self.sent_count += found.sent_count;
        self.dead_count += found.dead_count;
        self.stale_count += found.stale_count;
        self.total_scanned = self.sent_count + self.dead_count + self.stale_count;
        self.has_more = found.has_more;
        for finding in &found.findings {
            let fixed = u64::from(finding.fixed);
            let (missing, repaired) = match finding.issue {
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
            *repaired += fixed;
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

/// Runs one pass over the whole outbox.
pub async fn reconcile(
    logbook: &dyn Logbook,
    options: &ReconcileOptions,
) -> Result<ReconcileReport> {
    let mut report = ReconcileReport::default();
    for _ in 0..CALLS_MAX {
        let found = logbook.reconcile_memory(options).await?;
        record(&found);
        report.add(&found);
        // Without a repair the next call would find the same.
        let is_progressing = found.findings.iter().any(|finding| finding.fixed);
        if !found.has_more || !is_progressing {
            break;
        }
    }
    Ok(report)
}

/// Runs one pass for an operator. One that repairs is audited before it changes anything; if the process
/// dies, a later reconciliation ends that audit.
pub async fn reconcile_by(
    logbook: &dyn Logbook,
    options: &ReconcileOptions,
    project_key: &str,
    by: &By,
) -> Result<ReconcileReport> {
    if !options.is_repairing {
        return reconcile(logbook, options).await;
    }
    by.validate()?;
    let correlation = Correlation::new();
    let space = format!("governance:{project_key}");
    let facts = AuditFacts {
        actor_user_id: Some(by.actor.clone()),
        final_space: Some(space.clone()),
        action: Action::Allow,
        reason: format!("reconcile: {}", by.reason),
        ..AuditFacts::new(Operation::Reconcile, &correlation, space)
    };
    let audit = facts.audit(AuditStatus::Pending);
    logbook.insert_audit(&audit).await?;
    let outcome = reconcile(logbook, options).await;
    let end = AuditEnd::reconciled(&outcome);
    let ended = logbook.finalize_audit(&facts.correlation_id, &end).await;
    if let Err(error) = ended {
        warn!(%error, "recording the result of a reconciliation failed");
    }
    outcome
}

impl MemoryOptions {
    /// The options of reconciliation.
    pub fn reconcile(&self) -> ReconcileOptions {
        ReconcileOptions {
            stale_after: Duration::from_secs(self.stale_threshold_seconds),
            audit_timeout: Duration::from_secs(self.pending_audit_timeout_seconds),
            ..ReconcileOptions::default()
        }
    }
}

/// Reconciles periodically and updates the gauges, until dropped. Returns at once if the interval is 0.
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
                "the outbox and its audits differed: {report}"
            ),
            Err(error) => warn!(%error, "the outbox could not be reconciled"),
        }
        match logbook.outbox_counts().await {
            Ok(counts) => set_gauges(&counts),
            Err(error) => warn!(%error, "the outbox could not be counted"),
        }
    }
}

fn set_gauges(counts: &OutboxCounts) {
    for (status, count) in [
        ("pending", counts.pending),
        ("sent", counts.sent),
        ("dead", counts.dead),
    ] {
        gauge!(OUTBOX, "status" => status).set(count as f64);
    }
    gauge!(PENDING_AUDITS).set(counts.pending_audits as f64);
}

fn record(found: &ReconcileOutcome) {
    for finding in &found.findings {
        let detail = ReconcileDetail::from(finding);
        counter!(RECONCILED_TOTAL, "issue" => detail.issue).increment(1);
        if finding.issue == Issue::MissingOutboxRow {
            let (audit_id, outbox_id) = (detail.audit_id, detail.outbox_id);
            error!(
                audit_id,
                outbox_id, "an audit names an outbox row that does not exist"
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

    #[test]
    fn a_report_counts_findings_and_repairs() {
        let mut report = ReconcileReport::default();
        assert!(report.is_repaired());
        report.add(&ReconcileOutcome {
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
        report.add(&ReconcileOutcome {
            findings: vec![finding(Issue::MissingOutboxRow, false)],
            ..ReconcileOutcome::default()
        });
        assert!(!report.is_repaired(), "a missing row is not repaired");
        let text = report.to_string();
        assert!(
            text.starts_with("=== Outbox Reconcile Report ===\nTotal scanned: 6\n"),
            "{text}"
        );
        assert!(text.ends_with("Audits without a row: 1"), "{text}");
    }
}
