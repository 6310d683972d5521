//! Operator actions on messages and leases.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use async_trait::async_trait;
use consign_kernel::{
    By, EndedLease, Message, MessageId, Move, MoveResult, Operate, Payload, QueueName, QueuePolicy,
    Resolution, StateKind, TokenPrefix, plan::OperatorMove, resent_erased,
};

use crate::{
    SqliteStore,
    error::Result,
    groups::{GroupMessage, NewBatch},
    job::Work,
    read::{self, MessageState},
    retain::Gone,
    rows::{self, Entry},
    sql,
    store::write,
};

#[async_trait]
impl Operate for SqliteStore {
    async fn requeue(&self, ids: &[MessageId], by: &By) -> consign_kernel::Result<Vec<MoveResult>> {
        write!(self, "requeue", (ids, by), |work| work.requeue(&ids, &by))
    }

    async fn hold(&self, ids: &[MessageId], by: &By) -> consign_kernel::Result<Vec<MoveResult>> {
        write!(self, "hold", (ids, by), |work| work.hold(&ids, &by))
    }

    async fn unhold(&self, ids: &[MessageId], by: &By) -> consign_kernel::Result<Vec<MoveResult>> {
        write!(self, "unhold", (ids, by), |work| work.unhold(&ids, &by))
    }

    async fn resolve(
        &self,
        ids: &[MessageId],
        resolution: &Resolution,
        by: &By,
    ) -> consign_kernel::Result<Vec<MoveResult>> {
        write!(self, "resolve", (ids, resolution, by), |work| work.resolve(
            &ids,
            &resolution,
            &by
        ))
    }

    async fn discard(&self, ids: &[MessageId], by: &By) -> consign_kernel::Result<Vec<MoveResult>> {
        write!(self, "discard", (ids, by), |work| work.close(
            &ids,
            &by,
            OperatorMove::Discard
        ))
    }

    async fn cancel(&self, ids: &[MessageId], by: &By) -> consign_kernel::Result<Vec<MoveResult>> {
        write!(self, "cancel", (ids, by), |work| work.close(
            &ids,
            &by,
            OperatorMove::Cancel
        ))
    }

    async fn skip(
        &self,
        queue: &QueueName,
        group: &str,
        by: &By,
    ) -> consign_kernel::Result<Option<MoveResult>> {
        write!(self, "skip", (queue, group, by), |work| work
            .skip(&queue, &group, &by))
    }

    async fn end_lease(&self, prefix: &TokenPrefix, by: &By) -> consign_kernel::Result<EndedLease> {
        write!(self, "end a lease", (prefix, by), |work| work
            .end_lease(&prefix, &by))
    }

    async fn reveal(&self, id: MessageId, by: &By) -> consign_kernel::Result<Option<Message>> {
        write!(self, "show a payload", (by), |work| work.reveal(id, &by))
    }

    async fn resend(
        &self,
        id: MessageId,
        payload: Option<&Payload>,
        by: &By,
    ) -> consign_kernel::Result<Option<MessageId>> {
        let payload = payload.cloned();
        write!(self, "send a message again", (payload, by), |work| work
            .resend(id, Option::as_ref(&payload), &by))
    }
}

impl Work<'_> {
    /// Moves the dead to ready, or to waiting, with fresh tries.
    pub async fn requeue(&mut self, ids: &[MessageId], by: &By) -> Result<Vec<MoveResult>> {
        self.put_back(ids, by, OperatorMove::Requeue).await
    }

    pub(crate) async fn unhold(&mut self, ids: &[MessageId], by: &By) -> Result<Vec<MoveResult>> {
        self.put_back(ids, by, OperatorMove::Unhold).await
    }

    /// Moves the dead or the held to ready, or to waiting where their group has another head; one batch per
    /// queue.
    async fn put_back(
        &mut self,
        ids: &[MessageId],
        by: &By,
        kind: OperatorMove,
    ) -> Result<Vec<MoveResult>> {
        by.validate()?;
        let ids: BTreeSet<MessageId> = ids.iter().copied().collect();
        let found = self.states(&ids).await?;
        let take = match kind {
            OperatorMove::Requeue => sql!("dead_take"),
            _ => sql!("held_take"),
        };
        // Only a requeue meets an erased message: it is finished.
        let erased = self.erased_among(&ids).await?;
        let refusal = |id: &MessageId| {
            let state = found.get(id).map(|found| found.state);
            let erased = erased.contains(id).then_some(Move::Erased);
            kind.refusal(state).or(erased)
        };
        let moving = ids.iter().filter(|id| refusal(id).is_none());
        let moving: Vec<MessageId> = moving.copied().collect();
        let actions: Vec<_> = moving
            .iter()
            .map(|id| (Some(&found[id].queue), Some(*id)))
            .collect();
        let queues: BTreeSet<&QueueName> = moving.iter().map(|id| &found[id].queue).collect();
        let policies = self.policies(queues).await?;
        self.record_actions(by, kind.as_str(), &actions).await?;
        let entries = self.take_out(take, &moving).await?;
        if kind == OperatorMove::Requeue {
            let mut gone: BTreeMap<QueueName, Gone> = BTreeMap::new();
            for id in &moving {
                let queue = found[id].queue.clone();
                gone.entry(queue).or_default().revived += 1;
            }
            self.count_gone(&gone).await?;
        }
        let waiting = self.back_in_line(&found, &entries, &policies).await?;
        self.call_moved(&found, &moving, kind).await?;
        let answer = |id: &MessageId| {
            let state = if waiting.contains(id) {
                StateKind::Waiting
            } else {
                StateKind::Ready
            };
            let answer = refusal(id).unwrap_or(Move::Moved { state });
            MoveResult { id: *id, answer }
        };
        Ok(ids.iter().map(answer).collect())
    }

    /// Calls the hooks of the queues that these messages are in.
    async fn call_moved(
        &mut self,
        found: &HashMap<MessageId, MessageState>,
        moved: &[MessageId],
        action: OperatorMove,
    ) -> Result<()> {
        for (hook, ids) in self.components.hooks_among(found, moved) {
            hook.moved(self, &ids, action).await?;
        }
        Ok(())
    }

    /// Takes messages out of the table a statement names; returns them by id.
    pub(crate) async fn take_out(
        &mut self,
        statement: &'static str,
        ids: &[MessageId],
    ) -> Result<Vec<Entry>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let taken: Vec<(i64, i64, i64)> = sqlx::query_as(statement)
            .bind(rows::id_array(ids))
            .fetch_all(&mut *self.connection)
            .await?;
        let mut entries = taken
            .into_iter()
            .map(|(id, tries, attempts)| rows::entry(id, tries, attempts))
            .collect::<Result<Vec<Entry>>>()?;
        entries.sort_by_key(|entry| entry.id);
        Ok(entries)
    }

    /// Makes messages ready now, one batch per queue, unless their group has another head. Returns which wait.
    async fn back_in_line(
        &mut self,
        found: &HashMap<MessageId, MessageState>,
        entries: &[Entry],
        policies: &HashMap<QueueName, QueuePolicy>,
    ) -> Result<BTreeSet<MessageId>> {
        let want = |entry: &Entry| {
            let MessageState { queue, group, .. } = &found[&entry.id];
            let group = group.as_deref()?;
            policies[queue].ordered.then_some(GroupMessage {
                queue,
                group,
                entry: *entry,
                due_at: self.now,
            })
        };
        let wants: Vec<GroupMessage<'_>> = entries.iter().filter_map(want).collect();
        let heads = self.become_heads(&wants).await?;
        let refused = wants.iter().zip(heads).filter(|(_, is_head)| !is_head);
        let waiting: BTreeSet<MessageId> = refused.map(|(want, _)| want.entry.id).collect();
        let mut by_queue: BTreeMap<&QueueName, Vec<Entry>> = BTreeMap::new();
        for entry in entries.iter().filter(|entry| !waiting.contains(&entry.id)) {
            let queue = &found[&entry.id].queue;
            by_queue.entry(queue).or_default().push(*entry);
        }
        let due_at = self.now;
        let batches: Vec<NewBatch<'_>> = by_queue
            .iter()
            .map(|(queue, entries)| NewBatch {
                queue,
                due_at,
                entries,
                isolated: false,
            })
            .collect();
        self.make_ready(&batches).await?;
        for queue in by_queue.keys() {
            self.wake(queue, &policies[*queue]);
        }
        Ok(waiting)
    }

    /// Holds ready and waiting messages. A held message stays the head.
    pub async fn hold(&mut self, ids: &[MessageId], by: &By) -> Result<Vec<MoveResult>> {
        by.validate()?;
        let ids: BTreeSet<MessageId> = ids.iter().copied().collect();
        let found = self.states(&ids).await?;
        let state = |id: &MessageId| found.get(id).map(|found| found.state);
        let refusal = |id: &MessageId| OperatorMove::Hold.refusal(state(id));
        let moving = ids.iter().filter(|id| refusal(id).is_none());
        let moving: BTreeSet<MessageId> = moving.copied().collect();
        let queues: BTreeSet<&QueueName> = moving.iter().map(|id| &found[id].queue).collect();
        self.policies(queues).await?;
        let waiting: Vec<MessageId> = moving
            .iter()
            .filter(|id| found[id].state == StateKind::Waiting)
            .copied()
            .collect();
        let mut entries = self.take_out(sql!("waiting_take"), &waiting).await?;
        let ready: BTreeSet<MessageId> = moving
            .iter()
            .filter(|id| found[id].state == StateKind::Ready)
            .copied()
            .collect();
        entries.extend(self.take_from_ready(&ready).await?);
        let held_rows = |entry: &Entry| {
            let MessageState {
                queue,
                group,
                state,
            } = &found[&entry.id];
            let place = group.as_deref().filter(|_| *state == StateKind::Waiting);
            (queue, *entry, place)
        };
        let held_rows: Vec<_> = entries.iter().map(held_rows).collect();
        self.put_in_held(&held_rows, &by.reason).await?;
        let moving: Vec<MessageId> = moving.into_iter().collect();
        let actions: Vec<_> = moving
            .iter()
            .map(|id| (Some(&found[id].queue), Some(*id)))
            .collect();
        self.record_actions(by, "hold", &actions).await?;
        self.call_moved(&found, &moving, OperatorMove::Hold).await?;
        let answer = |id: &MessageId| {
            let state = StateKind::Held;
            let answer = refusal(id).unwrap_or(Move::Moved { state });
            MoveResult { id: *id, answer }
        };
        Ok(ids.iter().map(answer).collect())
    }

    /// Records in the audit that a payload was read.
    pub(crate) async fn reveal(&mut self, id: MessageId, by: &By) -> Result<Option<Message>> {
        by.validate()?;
        let message = read::message(&mut *self.connection, id).await?;
        if let Some(message) = &message {
            let action = [(Some(&message.queue), Some(id))];
            self.record_actions(by, "reveal", &action).await?;
        }
        Ok(message)
    }

    /// Enqueues a copy of a message as a new one.
    pub(crate) async fn resend(
        &mut self,
        id: MessageId,
        payload: Option<&Payload>,
        by: &By,
    ) -> Result<Option<MessageId>> {
        by.of_copy(MessageId(i64::MAX))?;
        let Some(message) = read::message(&mut *self.connection, id).await? else {
            return Ok(None);
        };
        if !self.erased_among(&BTreeSet::from([id])).await?.is_empty() {
            return Err(resent_erased(id).into());
        }
        let receipts = self.enqueue(&[message.copy(payload)]).await?;
        let copy = receipts[0].id;
        let action = [(Some(&message.queue), Some(id))];
        let by = by.of_copy(copy)?;
        self.record_actions(&by, "resend", &action).await?;
        Ok(Some(copy))
    }

    /// Takes messages out of their ready batches.
    pub(crate) async fn take_from_ready(
        &mut self,
        ids: &BTreeSet<MessageId>,
    ) -> Result<Vec<Entry>> {
        let mut taken = Vec::new();
        let mut emptied = Vec::new();
        for batch in self.batches_holding(ids).await? {
            let (leaving, staying): (Vec<Entry>, Vec<Entry>) =
                (batch.entries.iter()).partition(|entry| ids.contains(&entry.id));
            taken.extend(leaving);
            if staying.is_empty() {
                emptied.push(batch.batch)
            } else {
                self.shrink_batch(batch.batch, &staying).await?
            }
        }
        self.remove_batches(&emptied).await?;
        Ok(taken)
    }

    /// Files messages as held, each with the group in which it keeps its place if it waited there.
    pub(crate) async fn put_in_held(
        &mut self,
        entries: &[(&QueueName, Entry, Option<&str>)],
        reason: &str,
    ) -> Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        let row = |(queue, entry, group): &(&'_ QueueName, Entry, Option<&'_ str>)| {
            rows::json(&(entry.id, queue, entry.tries, entry.attempts, group))
        };
        let rows: Vec<String> = entries.iter().map(row).collect();
        sqlx::query(sql!("held_append"))
            .bind(format!("[{}]", rows.join(",")))
            .bind(rows::micros(self.now))
            .bind(reason)
            .execute(&mut *self.connection)
            .await?;
        Ok(())
    }
}
