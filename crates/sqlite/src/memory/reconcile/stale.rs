//! Leases that are over and that nobody renewed for long.

use consign_kernel::{MessageId, Token};
use consign_memory::{Action, AuditStatus, Finding, Issue, ReconcileOptions};
use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;

use super::{Found, earlier, new_correlation_id, nothing};
use crate::{
    error::{Failure, Result},
    job::Work,
    memory::told::{Told, iso},
    rows::{self, Entry, LeaseColumns, LeaseRow},
    sql,
};

impl Work<'_> {
    /// Audits the rows of stale leases, and ends these as a claim would. One whose end would make
    /// its row dead is left to the next claim: that is not for a reconciler to decide.
    pub(super) async fn reconcile_leases(
        &mut self,
        options: &ReconcileOptions,
    ) -> Result<Vec<Found>> {
        let stale: Vec<(Uuid, i64)> = sqlx::query_as(sql!("reconcile_leases"))
            .bind(rows::micros(self.now))
            .bind(rows::micros(earlier(self.now, options.stale_after)))
            .bind(options.batch)
            .fetch_all(&mut *self.connection)
            .await?;
        let mut found = Vec::new();
        for (token, locked_at) in stale {
            let lease = self.ended(Token(token)).await?;
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
                    let told = self.tell_stale(&lease, entry, locked_at, options, is_ending);
                    finding.audit_id = Some(self.audit_stale(&lease, entry.id, &told).await?);
                }
                found.push((locked_at, finding));
            }
            if is_ending {
                self.end(lease, options.reschedule_delay).await?;
            }
        }
        Ok(found)
    }

    /// A lease that is over but still there.
    async fn ended(&mut self, token: Token) -> Result<LeaseRow> {
        let columns: Option<LeaseColumns> = sqlx::query_as(sql!("lease_by_token"))
            .bind(token.0)
            .fetch_optional(&mut *self.connection)
            .await?;
        LeaseRow::new(columns.ok_or_else(|| Failure::corrupt("a stale lease is gone"))?)
    }

    fn tell_stale(
        &self,
        lease: &LeaseRow,
        entry: &Entry,
        locked_at: Timestamp,
        options: &ReconcileOptions,
        is_ending: bool,
    ) -> Told {
        Told {
            id: entry.id,
            attempt_no: entry.attempts + 1,
            correlation_id: new_correlation_id(),
            action: Action::Redirect,
            reason: "outbox_stale",
            status: AuditStatus::Redirected,
            memory_id: None,
            backend: None,
            next_attempt_at: None,
            extra: json!({
                "reconciled": true,
                "reconcile_time": iso(self.now),
                "stale_threshold_seconds": options.stale_after.as_secs(),
                "will_reschedule": is_ending,
                "original_locked_by": lease.owner,
                "original_locked_at": iso(locked_at),
                "lease_fence": lease.fence.0.to_string(),
            }),
        }
    }

    /// The audit that a lease of a row is stale; one for each lease, however often somebody looks.
    async fn audit_stale(&mut self, lease: &LeaseRow, id: MessageId, told: &Told) -> Result<i64> {
        let known: Option<i64> = sqlx::query_scalar(sql!("reconcile_stale_audit"))
            .bind(id.0)
            .bind(lease.fence.0.to_string())
            .fetch_optional(&mut *self.connection)
            .await?;
        match known {
            Some(audit_id) => Ok(audit_id),
            None => self.audit_late(told).await,
        }
    }
}
