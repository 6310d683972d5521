//! What the rail said, under a live lease; and what is said of workers that fell silent.

use std::collections::BTreeSet;

use consign_kernel::{Error, MessageId, Recorded, Report, SettleAnswer, Token};
use consign_payments::{
    AttemptState, CompleteAnswer, Completed, Completion, OutboxId, Repaired, lane,
};

use super::rows as payments;
use crate::{
    error::{Failure, Result},
    job::Work,
    rows::{self, LeaseColumns, LeaseRow},
    sql,
};

impl Work<'_> {
    pub(super) async fn complete(
        &mut self,
        token: Token,
        worker: &str,
        completions: &[Completion],
        chance: f64,
    ) -> Result<CompleteAnswer> {
        let ids: Vec<OutboxId> = completions.iter().map(|c| c.outbox_id).collect();
        let messages = payments::messages(self.connection, &ids).await?;
        let Some(messages) = messages.into_iter().collect::<Option<Vec<MessageId>>>() else {
            return Ok(CompleteAnswer::LeaseLost);
        };
        let lease = self.live(token).await?;
        if lease.as_ref().is_some_and(|lease| lease.owner != worker) {
            return Ok(CompleteAnswer::LeaseLost);
        }
        let pairs = completions.iter().zip(&messages);
        let reports: Option<Vec<Report>> = pairs.map(|(said, id)| said.report(*id, false)).collect();
        let Some(reports) = reports else {
            return match lease {
                // A lost lease comes first: whoever lost it has nothing to correct.
                None => Ok(CompleteAnswer::LeaseLost),
                Some(_) => {
                    let why = "a completion is DISPATCHED, RETRYABLE or FAILED";
                    Err(Error::invalid("state", why).into())
                }
            };
        };
        let (recorded, is_repeat) = match self.settle(token, &reports, chance).await? {
            SettleAnswer::Settled(recorded) => (recorded, false),
            SettleAnswer::AlreadySettled(recorded) => (recorded, true),
            SettleAnswer::LeaseLost | SettleAnswer::NotInLease(_) => {
                return Ok(CompleteAnswer::LeaseLost);
            }
        };
        let attempts: Vec<(MessageId, u32)> =
            recorded.iter().map(|r| (r.id, r.attempt_no)).collect();
        let said = self.attempts_said(&attempts).await?;
        if is_repeat && said.iter().any(|said| said.owner != worker) {
            return Ok(CompleteAnswer::LeaseLost);
        }
        let completed = |(recorded, said): (&Recorded, Said)| Completed {
            outbox_id: said.outbox_id,
            attempt_no: recorded.attempt_no,
            state: said.state,
            place: recorded.state,
        };
        let completed = recorded.iter().zip(said).map(completed);
        Ok(CompleteAnswer::Completed(completed.collect()))
    }

    pub(super) async fn repair(&mut self, limit: u32) -> Result<Vec<Repaired>> {
        let over: Vec<LeaseColumns> = sqlx::query_as(sql!("lease_ended"))
            .bind(rows::micros(self.now))
            .bind(lane().as_str())
            .bind(limit)
            .fetch_all(&mut *self.connection)
            .await?;
        let mut attempts: Vec<(MessageId, u32)> = Vec::new();
        for columns in over {
            let lease = LeaseRow::new(columns)?;
            attempts.extend(lease.entries.iter().map(|e| (e.id, e.attempts + 1)));
        }
        if attempts.is_empty() {
            return Ok(Vec::new());
        }
        self.expire(limit, Some(&lane())).await?;
        let said = self.attempts_said(&attempts).await?;
        let repaired = |said: Said| Repaired {
            outbox_id: said.outbox_id,
            attempt_no: said.attempt_no,
            state: said.state,
        };
        Ok(said.into_iter().map(repaired).collect())
    }

    /// What these attempts say, in order.
    async fn attempts_said(&mut self, attempts: &[(MessageId, u32)]) -> Result<Vec<Said>> {
        type Columns = (String, i64, String, Option<String>, Option<i64>, String);
        let found: Vec<Columns> = sqlx::query_as(sql!("payment_attempts"))
            .bind(rows::json(&attempts))
            .fetch_all(&mut *self.connection)
            .await?;
        let distinct: BTreeSet<&(MessageId, u32)> = attempts.iter().collect();
        if found.len() != distinct.len() {
            return Err(Failure::corrupt("an attempt of a payment is missing"));
        }
        let said = |(outbox_id, no, outcome, code, next_due_at, owner): Columns| {
            let outcome = rows::attempt_outcome(&outcome)?;
            let next_due_at = next_due_at.map(rows::timestamp).transpose()?;
            Ok(Said {
                outbox_id: payments::outbox_id(&outbox_id)?,
                attempt_no: rows::count(no)?,
                state: AttemptState::of(outcome, code.as_deref(), next_due_at),
                owner,
            })
        };
        found.into_iter().map(said).collect()
    }
}

/// An attempt in the protocol's words, and whose it is.
struct Said {
    outbox_id: OutboxId,
    attempt_no: u32,
    state: AttemptState,
    owner: String,
}
