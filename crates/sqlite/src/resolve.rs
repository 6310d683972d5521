//! Resolving held messages: an operator records their outcome.

use std::collections::{BTreeMap, BTreeSet};

use consign_kernel::{
    By, Error, Fence, MessageId, Move, MoveResult, Payload, QueueName, QueuePolicy, Report,
    Resolution, Token, after_resolution, codes, plan::OperatorMove,
};
use serde_json::Value;
use sqlx::Row;
use uuid::Uuid;

use crate::{
    error::{Failure, Result},
    job::{Work, arguments},
    read,
    rows::{self, Arrays, Entry, LeaseRow},
    sql,
};

impl Work<'_> {
    /// Settles held messages under a lease in the operator's name (in each queue) that
    /// is taken and ended in this transaction.
    pub(crate) async fn resolve(
        &mut self,
        ids: &[MessageId],
        resolution: &Resolution,
        by: &By,
    ) -> Result<Vec<MoveResult>> {
        by.validate()?;
        let ids: BTreeSet<MessageId> = ids.iter().copied().collect();
        resolution.validate(ids.len())?;
        if let Some(text) = resolution.result() {
            Payload::parse(text)
                .map_err(|why| Error::invalid("result", format!("must be JSON: {why}")))?;
        }
        let found = self.states(&ids).await?;
        for queue in found.values().map(|found| &found.queue) {
            if self.components.hook_of(queue).is_none() {
                resolution.refuse_result(queue)?;
            }
        }
        let state = |id: &MessageId| found.get(id).map(|found| found.state);
        let refusal = |id: &MessageId| OperatorMove::Resolve.refusal(state(id));
        let moving = ids.iter().filter(|id| refusal(id).is_none());
        let moving: Vec<MessageId> = moving.copied().collect();
        // Everything is validated before the first write.
        let queues: BTreeSet<&QueueName> = moving.iter().map(|id| &found[id].queue).collect();
        let mut policies = self.policies(queues).await?;
        let mut results = BTreeMap::new();
        for id in &moving {
            let result = self.result_of(&found[id].queue, *id, resolution).await?;
            results.extend(result.map(|result| (*id, result)));
        }
        let mut by_queue: BTreeMap<&QueueName, Vec<Entry>> = BTreeMap::new();
        for entry in self.take_out(sql!("held_take"), &moving).await? {
            let queue = &found[&entry.id].queue;
            by_queue.entry(queue).or_default().push(entry);
        }
        let actions: Vec<_> = moving
            .iter()
            .map(|id| (Some(&found[id].queue), Some(*id)))
            .collect();
        self.record_actions(by, "resolve", &actions).await?;
        let resolved = resolution.state();
        for (queue, entries) in by_queue {
            let policy = policies.remove(queue).ok_or_else(|| {
                Failure::corrupt(format!("held messages are in unknown queue {queue}"))
            })?;
            let lease = self.lease_for(queue, policy, entries, by).await?;
            self.settle_all(lease, resolution, &results, by).await?;
        }
        let answer = |id: &MessageId| {
            let answer = refusal(id).unwrap_or(Move::Moved { state: resolved });
            MoveResult { id: *id, answer }
        };
        Ok(ids.iter().map(answer).collect())
    }

    /// A lease on entries that are in no other place.
    async fn lease_for(
        &mut self,
        queue: &QueueName,
        policy: QueuePolicy,
        entries: Vec<Entry>,
        by: &By,
    ) -> Result<LeaseRow> {
        let (token, arrays) = (Token(Uuid::new_v4()), Arrays::of(&entries));
        let arguments = arguments!(
            None::<String>,
            arrays.ids,
            arrays.tries,
            arrays.attempts,
            token.0,
            queue.as_str(),
            by.actor.as_str(),
            rows::micros(self.now),
            rows::micros(self.now),
            false
        )?;
        let answers = self.rows_of(sql!("lease_append"), arguments).await?;
        let row = answers.first().and_then(|rows| rows.first());
        let row = row.ok_or_else(|| Failure::corrupt("a new lease has no fence"))?;
        Ok(LeaseRow {
            fence: Fence(row.try_get(0)?),
            token,
            queue: queue.clone(),
            owner: by.actor.clone(),
            claimed_at: self.now,
            expires_at: self.now,
            entries,
            begun: BTreeSet::new(),
            presumed_begun: false,
            policy,
        })
    }

    async fn settle_all(
        &mut self,
        lease: LeaseRow,
        resolution: &Resolution,
        results: &BTreeMap<MessageId, Value>,
        by: &By,
    ) -> Result<()> {
        let report = |entry: &Entry| Report {
            code: Some(codes::RESOLVED.to_owned()),
            detail: Some(by.reason.clone()),
            result: results.get(&entry.id).cloned(),
            ..Report::new(entry.id, resolution.outcome())
        };
        let reports: Vec<Report> = lease.entries.iter().map(report).collect();
        let reports: Vec<&Report> = reports.iter().collect();
        let next = |_: &Entry, _: &Report| after_resolution(resolution);
        self.record_with(lease, &reports, next).await?;
        Ok(())
    }

    /// The result that the attempt keeps of the resolution, if the queue has an app.
    async fn result_of(
        &mut self,
        queue: &QueueName,
        id: MessageId,
        resolution: &Resolution,
    ) -> Result<Option<Value>> {
        let Some(hook) = self.components.hook_of(queue) else {
            return Ok(None);
        };
        let message = read::message(self.connection, id).await?;
        let message = message.ok_or_else(|| Failure::corrupt(format!("{id} has no message")))?;
        Ok(hook.resolve(&message, resolution)?)
    }
}
