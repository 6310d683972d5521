//! Reconciles the outbox with its audits, and repairs missing audits, stale leases and hanging
//! audits. Never changes sent or dead rows or texts, and removes nothing.

mod outcomes;
mod stale;

use std::{collections::BTreeMap, time::Duration};

use crate::{AuditEnd, Finding, Issue, ReconcileOptions, ReconcileOutcome};
use consign_kernel::{Error, MessageId};
use jiff::{SignedDuration, Timestamp};
use sqlx::{Row, SqliteConnection};

use super::rows as logbook;
use crate::store::sqlite::{LogbookWork, sql};
use consign_sqlite::extension::{Result, rows};

/// A finding with its age.
type AgedFinding = (Timestamp, Finding);

/// Result of a survey. It reads in a snapshot, so writers do not wait.
#[derive(Clone, Debug, Default)]
pub(super) struct Survey {
    sent_count: u64,
    dead_count: u64,
    /// Sent and dead memories without an audit of it.
    sent: Vec<MessageId>,
    dead: Vec<MessageId>,
    /// Audits of rows that do not exist.
    rowless: Vec<AgedFinding>,
}

/// Surveys the outbox.
pub(super) async fn look(
    connection: &mut SqliteConnection,
    options: &ReconcileOptions,
    now: Timestamp,
) -> Result<Survey> {
    if !(1..=10_000).contains(&options.batch) {
        return Err(Error::out_of_bounds("batch", options.batch, "must be 1 to 10000").into());
    }
    let since = rows::micros(earlier(now, options.scan_window));
    let (sent, dead): (i64, i64) = sqlx::query_as(sql!("reconcile_counted"))
        .bind(since)
        .fetch_one(&mut *connection)
        .await?;
    Ok(Survey {
        sent_count: sent.unsigned_abs(),
        dead_count: dead.unsigned_abs(),
        sent: outcomes::missing(connection, false, options.batch).await?,
        dead: outcomes::missing(connection, true, options.batch).await?,
        rowless: rowless(connection, options.batch).await?,
    })
}

impl LogbookWork<'_, '_> {
    /// Repairs the findings that still hold, and what an index finds.
    pub(super) async fn reconcile(
        &mut self,
        seen: &Survey,
        options: &ReconcileOptions,
    ) -> Result<ReconcileOutcome> {
        let issue = Issue::SentMissingAudit;
        let mut found = self.reconcile_outcomes(issue, &seen.sent, options).await?;
        let issue = Issue::DeadMissingAudit;
        found.extend(self.reconcile_outcomes(issue, &seen.dead, options).await?);
        let stale = self.reconcile_leases(options).await?;
        let stale_count = stale.len() as u64;
        found.extend(stale);
        found.extend(self.reconcile_pending(options).await?);
        found.extend(seen.rowless.iter().cloned());
        found.sort_by_key(|(at, finding)| (*at, finding.audit_id, finding.outbox_id));
        let findings: Vec<Finding> = found.into_iter().map(|(_, finding)| finding).collect();
        Ok(ReconcileOutcome {
            sent_count: seen.sent_count,
            dead_count: seen.dead_count,
            stale_count,
            has_more: has_more(&findings, options.batch as usize),
            findings,
        })
    }

    /// Ends audits that are pending for too long as failed.
    async fn reconcile_pending(&mut self, options: &ReconcileOptions) -> Result<Vec<AgedFinding>> {
        let before = earlier(self.now, options.audit_timeout);
        let hanging = sqlx::query(sql!("reconcile_pending"))
            .bind(rows::micros(before))
            .bind(options.batch)
            .fetch_all(&mut *self.connection)
            .await?;
        let mut found = Vec::with_capacity(hanging.len());
        for row in hanging {
            let at = logbook::time(&row, "created_at")?;
            let reason: Option<String> = row.try_get("reason")?;
            let outbox_id: Option<i64> = row.try_get("outbox_id")?;
            let mut fixed = false;
            if options.is_repairing {
                let end = AuditEnd::timed_out(reason.as_deref(), at, self.now);
                let id: String = row.try_get("correlation_id")?;
                fixed = self.finalize_audit(&id, &end, None).await?;
            }
            let finding = Finding {
                outbox_id: outbox_id.map(MessageId),
                audit_id: Some(row.try_get("audit_id")?),
                fixed,
                ..nothing(Issue::HangingAudit)
            };
            found.push((at, finding));
        }
        Ok(found)
    }
}

/// Audits of rows that do not exist.
async fn rowless(connection: &mut SqliteConnection, batch: u32) -> Result<Vec<AgedFinding>> {
    let rowless = sqlx::query(sql!("reconcile_rowless"))
        .bind(batch)
        .fetch_all(connection)
        .await?;
    let mut found = Vec::with_capacity(rowless.len());
    for row in rowless {
        let finding = Finding {
            outbox_id: Some(MessageId(row.try_get("outbox_id")?)),
            audit_id: Some(row.try_get("audit_id")?),
            ..nothing(Issue::MissingOutboxRow)
        };
        found.push((logbook::time(&row, "created_at")?, finding));
    }
    Ok(found)
}

/// A finding about nothing yet.
fn nothing(issue: Issue) -> Finding {
    Finding {
        issue,
        outbox_id: None,
        audit_id: None,
        locked_by: None,
        locked_at: None,
        fixed: false,
        rescheduled: false,
    }
}

/// With repairs and a full batch, another call may find more.
fn has_more(findings: &[Finding], batch: usize) -> bool {
    let mut kinds: BTreeMap<Issue, (usize, bool)> = BTreeMap::new();
    for finding in findings {
        let (count, is_moving) = kinds.entry(finding.issue).or_default();
        *count += 1;
        *is_moving |= finding.fixed && (finding.issue != Issue::StaleLock || finding.rescheduled);
    }
    kinds
        .values()
        .any(|(count, is_moving)| *count >= batch && *is_moving)
}

/// `now` minus a duration, bounded by the calendar.
fn earlier(now: Timestamp, by: Duration) -> Timestamp {
    let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
    now.saturating_sub(SignedDuration::from_micros(micros))
        .expect("invariant: subtracting a duration saturates")
}
