//! Completions under a live lease, and repair of expired leases.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use consign_kernel::{
    AttemptOutcome, Error, MessageId, RecordedOutcome, Report, Token, plan::not_in_lease,
};
use consign_sqlite::extension::{
    Failure, Result,
    rows::{self, Entry, LeaseRow},
};
use serde_json::Value;

use super::{PaymentWork, rows as payments, sql};
use crate::{
    AttemptState, CompleteAnswer, Completion, CompletionResult, OutboxId, RepairResult, queue,
};

/// Delay of a repaired payment, unless it is claimed earlier.
const REST: Duration = Duration::from_secs(1);

/// What a worker recorded for a payment.
pub(super) struct RecordedCompletion {
    outcome: AttemptOutcome,
    code: Option<String>,
    result: Option<Value>,
}

impl RecordedCompletion {
    /// Whether a completion reports the same.
    pub(super) fn is(&self, completion: &Completion) -> bool {
        completion.is_recorded_as(self.outcome, self.code.as_deref(), self.result.as_ref())
    }
}

impl PaymentWork<'_, '_> {
    /// Everything is validated before the first write, a lost lease first.
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
        let lease = lease.filter(|lease| lease.owner == worker);
        // Payments still in the lease were not recorded under its token, so only the rest is read.
        let gone = match &lease {
            Some(lease) => not_in_lease(&lease.entries, messages.iter().copied()),
            None => messages.clone(),
        };
        let earlier = self.completions_under(token, worker, &gone).await?;
        let is_lost = gone.iter().any(|id| !earlier.contains_key(id));
        if is_lost || (lease.is_none() && completions.is_empty()) {
            return Ok(CompleteAnswer::LeaseLost);
        }
        check(completions)?;
        let pairs = completions.iter().zip(&messages);
        let is_other =
            |(c, id): (&Completion, &MessageId)| earlier.get(id).is_some_and(|s| !s.is(c));
        if pairs.clone().any(is_other) {
            return Ok(CompleteAnswer::RecordedOtherwise);
        }
        let mut recorded = self.recorded_under(token, &gone).await?;
        if let Some(lease) = lease {
            let fresh: Vec<_> = pairs.filter(|(_, id)| !earlier.contains_key(id)).collect();
            let new = self.record_completions(lease, &fresh, chance).await?;
            recorded.extend(new);
        }
        let completed = |(completion, id): (&Completion, &MessageId)| {
            let RecordedOutcome {
                attempt_no,
                outcome,
                next_due_at,
                state: message_state,
                ..
            } = recorded
                .remove(id)
                .ok_or_else(|| Failure::corrupt("an attempt of a payment is missing"))?;
            Ok(CompletionResult {
                outbox_id: completion.outbox_id,
                attempt_no,
                // Workers cannot report the kernel's own codes, so the code does not matter.
                state: AttemptState::of(outcome, None, next_due_at),
                message_state,
            })
        };
        let completed: Result<_> = completions.iter().zip(&messages).map(completed).collect();
        Ok(CompleteAnswer::Completed(completed?))
    }

    /// Records completions of payments that the lease holds.
    async fn record_completions(
        &mut self,
        lease: LeaseRow,
        fresh: &[(&Completion, &MessageId)],
        chance: f64,
    ) -> Result<Vec<(MessageId, RecordedOutcome)>> {
        if fresh.is_empty() {
            return Ok(Vec::new());
        }
        let is_open = |completion: &Completion| {
            completion.state == AttemptState::Retryable && completion.in_doubt.is_none()
        };
        let open = fresh.iter().filter(|(completion, _)| is_open(completion));
        let open: BTreeSet<MessageId> = open.map(|(_, id)| **id).collect();
        let open_entries = lease.entries.iter().filter(|e| open.contains(&e.id));
        let open_entries: Vec<Entry> = open_entries.copied().collect();
        let in_doubt = self.in_doubt(&open_entries).await?;
        let report = |(completion, id): &(&Completion, &MessageId)| {
            let report = completion.report(**id, in_doubt.contains(&id.0));
            report.map(Report::bounded)
        };
        let reports: Option<Vec<Report>> = fresh.iter().map(report).collect();
        let reports = reports.ok_or_else(|| Failure::corrupt("a completion has no report"))?;
        let reports: Vec<&Report> = reports.iter().collect();
        self.record(lease, &reports, chance).await
    }

    /// What this worker recorded for messages under a token.
    pub(super) async fn completions_under(
        &mut self,
        token: Token,
        worker: &str,
        ids: &[MessageId],
    ) -> Result<BTreeMap<MessageId, RecordedCompletion>> {
        if ids.is_empty() {
            return Ok(BTreeMap::new());
        }
        type Columns = (i64, String, Option<String>, Option<String>);
        let found: Vec<Columns> = sqlx::query_as(sql!("payment_recorded"))
            .bind(rows::id_array(ids))
            .bind(token.0)
            .bind(worker)
            .fetch_all(&mut *self.connection)
            .await?;
        let earlier = |(id, outcome, code, result): Columns| {
            let earlier = RecordedCompletion {
                outcome: rows::attempt_outcome(&outcome)?,
                code,
                result: result.as_deref().map(rows::document).transpose()?,
            };
            Ok((MessageId(id), earlier))
        };
        found.into_iter().map(earlier).collect()
    }

    pub(super) async fn repair(&mut self, limit: u32) -> Result<Vec<RepairResult>> {
        let mut attempts: Vec<(MessageId, u32)> = Vec::new();
        for lease in self.expired_leases(limit, Some(&queue())).await? {
            attempts.extend(lease.entries.iter().map(|e| (e.id, e.attempts + 1)));
        }
        if attempts.is_empty() {
            return Ok(Vec::new());
        }
        self.expire(limit, Some(&queue()), REST).await?;
        self.repaired(&attempts).await
    }

    /// The results of these attempts, in order.
    async fn repaired(&mut self, attempts: &[(MessageId, u32)]) -> Result<Vec<RepairResult>> {
        type Columns = (String, i64, String, Option<String>, Option<i64>);
        let found: Vec<Columns> = sqlx::query_as(sql!("payment_attempts"))
            .bind(rows::json(&attempts))
            .fetch_all(&mut *self.connection)
            .await?;
        if found.len() != attempts.len() {
            return Err(Failure::corrupt("an attempt of a payment is missing"));
        }
        let repaired = |(outbox_id, no, outcome, code, next_due_at): Columns| {
            let outcome = rows::attempt_outcome(&outcome)?;
            let next_due_at = next_due_at.map(rows::timestamp).transpose()?;
            Ok(RepairResult {
                outbox_id: payments::outbox_id(&outbox_id)?,
                attempt_no: rows::count(no)?,
                state: AttemptState::of(outcome, code.as_deref(), next_due_at),
            })
        };
        found.into_iter().map(repaired).collect()
    }
}

/// Rejects invalid completions and repeated payments.
pub(super) fn check(completions: &[Completion]) -> Result<()> {
    let mut seen = BTreeSet::new();
    for completion in completions {
        completion.validate()?;
        if !seen.insert(completion.outbox_id) {
            let why = format!("payment {} occurs more than once", completion.outbox_id);
            return Err(Error::invalid("completions", why).into());
        }
    }
    Ok(())
}
