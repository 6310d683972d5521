//! Closing messages without delivery: discarding the dead and held, cancelling the ready and waiting.

use std::collections::{BTreeMap, BTreeSet};

use consign_kernel::{
    By, Error, MessageId, Move, MoveResult, QueueName, QueuePolicy, StateKind, plan::OperatorMove,
};
use sqlx::FromRow;

use crate::{
    component::Hook,
    error::Result,
    job::Work,
    queues,
    retain::Gone,
    rows::{self, Entry},
    sql,
};

/// A queue whose messages may be closed, unless its app has no such end.
struct ClosableQueue {
    policy: QueuePolicy,
    refuses: bool,
}

impl Work<'_> {
    /// Moves messages to `discarded`; then the groups go on whose heads they were.
    pub(crate) async fn close(
        &mut self,
        ids: &[MessageId],
        by: &By,
        kind: OperatorMove,
    ) -> Result<Vec<MoveResult>> {
        by.validate()?;
        let ids: BTreeSet<MessageId> = ids.iter().copied().collect();
        let found = self.states(&ids).await?;
        let names: BTreeSet<&QueueName> = found.values().map(|found| &found.queue).collect();
        let queues = self.closable_queues(&names).await?;
        let refusal = |id: &MessageId| match found.get(id) {
            Some(found) if queues[&found.queue].refuses => Some(Move::AppQueue),
            found => kind.refusal(found.map(|found| found.state)),
        };
        let moving = ids.iter().filter(|id| refusal(id).is_none());
        let moving: Vec<MessageId> = moving.copied().collect();
        let in_state = |state: StateKind| {
            let is_in = |id: &&MessageId| found[*id].state == state;
            moving.iter().filter(is_in).copied().collect::<Vec<_>>()
        };
        let dead = in_state(StateKind::Dead);
        let ready: BTreeSet<MessageId> = in_state(StateKind::Ready).into_iter().collect();
        let mut entries = self.take_out(sql!("dead_take"), &dead).await?;
        for (statement, state) in [
            (sql!("held_take"), StateKind::Held),
            (sql!("waiting_take"), StateKind::Waiting),
        ] {
            entries.extend(self.take_out(statement, &in_state(state)).await?);
        }
        entries.extend(self.take_from_ready(&ready).await?);
        let row = |entry: &Entry| (entry.id, &found[&entry.id].queue, entry.attempts);
        let rows: Vec<_> = entries.iter().map(row).collect();
        self.file_discarded(&rows, by).await?;
        let action = |id: &MessageId| (Some(&found[id].queue), Some(*id));
        let actions: Vec<_> = moving.iter().map(action).collect();
        self.record_actions(by, kind.as_str(), &actions).await?;
        // Their deaths stay in the totals of the queues.
        let mut gone: BTreeMap<QueueName, Gone> = BTreeMap::new();
        for id in &dead {
            gone.entry(found[id].queue.clone()).or_default().revived += 1;
        }
        self.count_gone(&gone).await?;
        for (name, queue) in &queues {
            let finished = moving.iter().filter(|id| found[*id].queue == *name);
            let finished: Vec<_> = finished.map(|id| (*id, false)).collect();
            self.promote_after(name, &queue.policy, &finished).await?;
        }
        for (hook, ids) in self.components.hooks_among(&found, &moving) {
            hook.discarded(self, &ids, kind).await?;
        }
        let answer = |id: &MessageId| {
            let state = StateKind::Discarded;
            let answer = refusal(id).unwrap_or(Move::Moved { state });
            MoveResult { id: *id, answer }
        };
        Ok(ids.iter().map(answer).collect())
    }

    /// Discards or cancels the head of a group.
    pub(crate) async fn skip(
        &mut self,
        queue: &QueueName,
        group: &str,
        by: &By,
    ) -> Result<Option<MoveResult>> {
        by.validate()?;
        let Some(known) = queues::queue(self.connection, queue).await? else {
            return Err(queues::unknown_queue(self.connection, queue).await);
        };
        if !known.policy.ordered {
            return Err(Error::not_ordered(queue).into());
        }
        let head: Option<(i64, i64)> = sqlx::query_as(sql!("group_head_list"))
            .bind(rows::json(&[(queue, group)]))
            .fetch_optional(&mut *self.connection)
            .await?;
        let Some(head) = head.map(|(_, head)| MessageId(head)) else {
            return Ok(None);
        };
        let found = self.states(&BTreeSet::from([head])).await?;
        let state = found.get(&head).map(|found| found.state);
        let kind = state.map_or(OperatorMove::Discard, OperatorMove::of_skip);
        Ok(self.close(&[head], by, kind).await?.pop())
    }

    /// Rejects a redrive that closes messages of an app that has no such end for them.
    pub(crate) async fn check_closable(&mut self, name: &QueueName) -> Result<()> {
        let queues = self.closable_queues(&BTreeSet::from([name])).await?;
        if queues.values().any(|queue| queue.refuses) {
            return Err(Error::not_closable(name).into());
        }
        Ok(())
    }

    async fn closable_queues(
        &mut self,
        names: &BTreeSet<&QueueName>,
    ) -> Result<BTreeMap<QueueName, ClosableQueue>> {
        let found = sqlx::query(sql!("queues_named"))
            .bind(rows::json(names))
            .fetch_all(&mut *self.connection)
            .await?;
        let mut queues = BTreeMap::new();
        for row in found {
            let (name, policy, app) = <(String, String, Option<String>)>::from_row(&row)?;
            let policy = rows::policy(&name, &policy)?;
            let name = rows::queue_name(&name)?;
            let hook = self.components.hook_of(&name);
            let refuses = (app.is_some() || hook.is_some()) && !hook.is_some_and(Hook::can_discard);
            queues.insert(name, ClosableQueue { policy, refuses });
        }
        Ok(queues)
    }

    async fn file_discarded(
        &mut self,
        rows: &[(MessageId, &QueueName, u32)],
        by: &By,
    ) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        sqlx::query(sql!("discarded_append"))
            .bind(rows::json(&rows))
            .bind(rows::micros(self.now))
            .bind(&by.actor)
            .bind(&by.reason)
            .execute(&mut *self.connection)
            .await?;
        Ok(())
    }
}
