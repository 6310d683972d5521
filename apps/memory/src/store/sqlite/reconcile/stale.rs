//! Expired leases that were not renewed for long.

use crate::{
    Action, AuditStatus, Correlation, Finding, Issue, ReconcileOptions, audit_json::micros_text,
};
use consign_kernel::{MessageId, Token};
use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;

use super::{AgedFinding, earlier, nothing};
use crate::store::sqlite::{LogbookWork, outbox_event::OutboxEvent, sql};
use consign_sqlite::extension::{
    Failure, Result,
    rows::{self, Entry, LeaseRow},
};

impl LogbookWork<'_, '_> {
    /// Audits the rows of stale leases, and ends the leases like a claim. A lease whose end would
    /// make its row dead is left to the next claim: a reconciliation must not decide that.
    pub(super) async fn reconcile_leases(
        &mut self,
        options: &ReconcileOptions,
    ) -> Result<Vec<AgedFinding>> {
        let stale: Vec<(Uuid, i64)> = sqlx::query_as(sql!("reconcile_leases"))
            .bind(rows::micros(self.now))
            .bind(rows::micros(earlier(self.now, options.stale_after)))
            .bind(options.batch)
            .fetch_all(&mut *self.connection)
            .await?;
        let mut found = Vec::new();
        for (token, locked_at) in stale {
            let lease = self.lease_by_token(Token(token)).await?;
            let lease = lease.ok_or_else(|| Failure::corrupt("a stale lease disappeared"))?;
            let locked_at = rows::timestamp(locked_at)?;
            let is_ending = options.is_repairing
                && options.is_rescheduling
                && (lease.entries.len() > 1
                    || lease
                        .entries
                        .iter()
                        .all(|e| e.tries + 1 < lease.policy.attempts_max));
            for entry in &lease.entries {
                let mut finding = Finding {
                    outbox_id: Some(entry.id),
                    locked_by: Some(lease.owner.clone()),
                    locked_at: Some(locked_at),
                    fixed: is_ending || options.is_repairing && !options.is_rescheduling,
                    rescheduled: is_ending,
                    ..nothing(Issue::StaleLock)
                };
                if options.is_repairing {
                    let event = self.stale_event(&lease, entry, locked_at, options, is_ending);
                    finding.audit_id = Some(self.audit_stale(&lease, entry.id, &event).await?);
                }
                found.push((locked_at, finding));
            }
            if is_ending {
                self.end(lease, options.reschedule_delay).await?;
            }
        }
        Ok(found)
    }

    fn stale_event(
        &self,
        lease: &LeaseRow,
        entry: &Entry,
        locked_at: Timestamp,
        options: &ReconcileOptions,
        is_ending: bool,
    ) -> OutboxEvent {
        OutboxEvent {
            id: entry.id,
            attempt_no: entry.attempts + 1,
            correlation: Correlation::new(),
            action: Action::Redirect,
            reason: "outbox_stale",
            status: AuditStatus::Redirected,
            memory_id: None,
            backend: None,
            next_attempt_at: None,
            extra: json!({
                "reconciled": true,
                "reconcile_time": micros_text(self.now),
                "stale_threshold_seconds": options.stale_after.as_secs(),
                "will_reschedule": is_ending,
                "original_locked_by": lease.owner,
                "original_locked_at": micros_text(locked_at),
                "lease_fence": lease.fence.0.to_string(),
            }),
        }
    }

    /// The audit of a stale lease; one per lease.
    async fn audit_stale(
        &mut self,
        lease: &LeaseRow,
        id: MessageId,
        event: &OutboxEvent,
    ) -> Result<i64> {
        let known: Option<i64> = sqlx::query_scalar(sql!("reconcile_stale_audit"))
            .bind(id.0)
            .bind(lease.fence.0.to_string())
            .fetch_optional(&mut *self.connection)
            .await?;
        match known {
            Some(audit_id) => Ok(audit_id),
            None => self.audit_late(event).await,
        }
    }
}
