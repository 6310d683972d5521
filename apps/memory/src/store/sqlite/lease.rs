//! The seed's lease protocol: a lease per row, identified by the worker's name.

use std::time::Duration;

use crate::{OutboxRow, queue};
use consign_kernel::{Claim, Error, MessageId, Outcome, RenewAnswer, Report, Token};
use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;

use super::{outbox, rows as logbook};
use crate::store::sqlite::{LogbookWork, sql};
use crate::uri::mask_credentials;
use consign_sqlite::extension::{Result, rows::LeaseRow};

/// Maximum delay of the next attempt.
const REST_MAX: Duration = Duration::from_secs(366 * 24 * 3600);
/// The shortest lease.
const TTL_MIN: Duration = Duration::from_millis(1);

impl LogbookWork<'_, '_> {
    pub(super) async fn claim_outbox(
        &mut self,
        worker_id: &str,
        limit: u32,
        ttl: Duration,
    ) -> Result<Vec<OutboxRow>> {
        // Zero means the shortest lease.
        let ttl = ttl.max(TTL_MIN);
        let claim = Claim::new(queue(), worker_id, 1).with_ttl(ttl);
        claim.validate()?;
        if limit > logbook::ROWS_MAX {
            let why = format!("must be at most {}", logbook::ROWS_MAX);
            return Err(Error::out_of_bounds("limit", limit, why).into());
        }
        self.make_queue().await?;
        self.run(sql!("lease_claimed_end")).await?;
        let mut ids = Vec::new();
        for _ in 0..limit {
            // The worker may call the memory server at once, without a begin.
            let Some((lease, _)) = self.claim(&claim, true, 1).await? else {
                break;
            };
            sqlx::query(sql!("lease_claimed_for"))
                .bind(lease.fence.0)
                .bind(i64::try_from(ttl.as_micros()).unwrap_or(i64::MAX))
                .execute(&mut *self.connection)
                .await?;
            ids.extend(lease.messages.iter().map(|claimed| claimed.message.id));
        }
        outbox::rows_of(self.connection, &ids).await
    }

    pub(super) async fn ack_sent(
        &mut self,
        id: MessageId,
        worker_id: &str,
        memory_id: Option<&str>,
    ) -> Result<bool> {
        let result = match memory_id {
            Some(memory_id) => json!({"memory_id": memory_id}),
            None => json!({}),
        };
        let report = Report {
            code: Some("stored".to_owned()),
            result: Some(result),
            ..Report::delivered(id)
        };
        self.record_report(worker_id, report).await
    }

    pub(super) async fn fail_retry(
        &mut self,
        id: MessageId,
        worker_id: &str,
        error: &str,
        next_attempt_at: Timestamp,
    ) -> Result<bool> {
        let rest = next_attempt_at.duration_since(self.now);
        // A time in the past is now.
        let rest = Duration::try_from(rest).unwrap_or(Duration::ZERO);
        if rest > REST_MAX {
            let why = "must be a time within a year";
            return Err(Error::invalid("next_attempt_at", why).into());
        }
        let report = Report {
            detail: Some(mask_credentials(error).into_owned()),
            retry_in: Some(rest),
            ..Report::retry(id, "retry")
        };
        self.record_report(worker_id, report).await
    }

    pub(super) async fn mark_dead(
        &mut self,
        id: MessageId,
        worker_id: &str,
        error: &str,
    ) -> Result<bool> {
        let report = Report {
            code: Some("dead".to_owned()),
            detail: Some(mask_credentials(error).into_owned()),
            ..Report::new(id, Outcome::Dead)
        };
        self.record_report(worker_id, report).await
    }

    pub(super) async fn renew_outbox(&mut self, id: MessageId, worker_id: &str) -> Result<bool> {
        let Some((lease, claimed_for)) = self.lease_of(id, worker_id).await? else {
            return Ok(false);
        };
        let ttl = claimed_for.unwrap_or(lease.policy.lease_ttl());
        let renewed = self.renew(lease.token, ttl).await?;
        Ok(matches!(renewed, RenewAnswer::Renewed { .. }))
    }

    /// Records a worker's report about a row under its lease. Without a live lease it is ignored;
    /// if the worker had the lease before, it is stored as a late result.
    async fn record_report(&mut self, worker_id: &str, report: Report) -> Result<bool> {
        let report = report.bounded();
        let Some((mut lease, _)) = self.lease_of(report.id, worker_id).await? else {
            let lost: Option<Uuid> = sqlx::query_scalar(sql!("outbox_memory_lost"))
                .bind(report.id.0)
                .bind(worker_id)
                .fetch_optional(&mut *self.connection)
                .await?;
            if let Some(token) = lost {
                self.record_late(Token(token), &[report]).await?;
            }
            return Ok(false);
        };
        if report.outcome == Outcome::Retry {
            // The caller counts its attempts: one try is left, whatever the queue's limit.
            let left = lease.policy.attempts_max.saturating_sub(2);
            for entry in lease
                .entries
                .iter_mut()
                .filter(|entry| entry.id == report.id)
            {
                entry.tries = entry.tries.min(left);
            }
            lease.policy.attempts_max = u32::MAX;
        }
        self.record(lease, &[&report], 0.0).await?;
        Ok(true)
    }

    /// The live lease of a worker on a row, and its requested time.
    async fn lease_of(
        &mut self,
        id: MessageId,
        worker_id: &str,
    ) -> Result<Option<(LeaseRow, Option<Duration>)>> {
        let found: Option<(Uuid, Option<i64>)> = sqlx::query_as(sql!("outbox_memory_lease"))
            .bind(id.0)
            .bind(worker_id)
            .fetch_optional(&mut *self.connection)
            .await?;
        let Some((token, claimed_for)) = found else {
            return Ok(None);
        };
        let claimed_for = claimed_for.map(|micros| Duration::from_micros(micros.unsigned_abs()));
        let lease = self.live(Token(token)).await?;
        Ok(lease.map(|lease| (lease, claimed_for)))
    }
}
