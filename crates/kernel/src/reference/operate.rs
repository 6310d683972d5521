//! Operator actions on messages and leases.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use jiff::Timestamp;

use super::{Entry, HeldRow, Reference, groups::Admission};
use crate::{
    By, EndedLease, Message, MessageId, Move, MoveResult, Operate, Payload, QueueName,
    ReferenceStore, Resolution, StateKind, TokenPrefix, error::Result, plan::OperatorMove,
    resent_erased,
};

#[async_trait]
impl Operate for ReferenceStore {
    async fn requeue(&self, ids: &[MessageId], by: &By) -> Result<Vec<MoveResult>> {
        self.at(|reference, now| reference.requeue(now, ids, by))
    }

    async fn hold(&self, ids: &[MessageId], by: &By) -> Result<Vec<MoveResult>> {
        self.at(|reference, now| reference.hold(now, ids, by))
    }

    async fn unhold(&self, ids: &[MessageId], by: &By) -> Result<Vec<MoveResult>> {
        self.at(|reference, now| reference.unhold(now, ids, by))
    }

    async fn resolve(
        &self,
        ids: &[MessageId],
        resolution: &Resolution,
        by: &By,
    ) -> Result<Vec<MoveResult>> {
        let token = self.draw_token();
        self.at(|reference, now| reference.resolve(now, token, ids, resolution, by))
    }

    async fn discard(&self, ids: &[MessageId], by: &By) -> Result<Vec<MoveResult>> {
        self.at(|reference, now| reference.discard(now, ids, by))
    }

    async fn cancel(&self, ids: &[MessageId], by: &By) -> Result<Vec<MoveResult>> {
        self.at(|reference, now| reference.cancel(now, ids, by))
    }

    async fn skip(&self, queue: &QueueName, group: &str, by: &By) -> Result<Option<MoveResult>> {
        self.at(|reference, now| reference.skip(now, queue, group, by))
    }

    async fn end_lease(&self, prefix: &TokenPrefix, by: &By) -> Result<EndedLease> {
        self.at(|reference, now| reference.end_lease(now, prefix, by))
    }

    async fn reveal(&self, id: MessageId, by: &By) -> Result<Option<Message>> {
        self.at(|reference, now| reference.reveal(now, id, by))
    }

    async fn resend(
        &self,
        id: MessageId,
        payload: Option<&Payload>,
        by: &By,
    ) -> Result<Option<MessageId>> {
        self.at(|reference, now| reference.resend(now, id, payload, by))
    }
}

impl Reference {
    /// Gives dead messages a fresh set of tries.
    pub fn requeue(
        &mut self,
        now: Timestamp,
        ids: &[MessageId],
        by: &By,
    ) -> Result<Vec<MoveResult>> {
        self.put_back(now, ids, by, OperatorMove::Requeue, |store, id| {
            let dead = store.dead.remove(&id)?;
            let queue = store.messages[&id].queue.clone();
            store.departed.entry(queue).or_default().revived += 1;
            Some(Entry {
                id,
                tries: 0,
                attempts: dead.attempt_no,
            })
        })
    }

    /// Puts held messages back.
    pub fn unhold(
        &mut self,
        now: Timestamp,
        ids: &[MessageId],
        by: &By,
    ) -> Result<Vec<MoveResult>> {
        self.put_back(now, ids, by, OperatorMove::Unhold, |store, id| {
            store.held.remove(&id).map(|held| held.entry)
        })
    }

    /// Moves messages to ready, or to waiting where their group has another head; one batch per queue.
    fn put_back(
        &mut self,
        now: Timestamp,
        ids: &[MessageId],
        by: &By,
        kind: OperatorMove,
        take_out: impl Fn(&mut Self, MessageId) -> Option<Entry>,
    ) -> Result<Vec<MoveResult>> {
        by.validate()?;
        let mut answers = Vec::new();
        let mut batches: BTreeMap<QueueName, Vec<Entry>> = BTreeMap::new();
        for id in ids.iter().copied().collect::<BTreeSet<_>>() {
            let state = self.state(id).map(|state| state.kind());
            // Only a requeue gets this far with an erased message: it is finished.
            let erased = self.erasures.contains_key(&id).then_some(Move::Erased);
            if let Some(answer) = kind.refusal(state).or(erased) {
                answers.push(MoveResult { id, answer });
                continue;
            }
            let entry = take_out(self, id).expect("invariant: in the state it is taken from");
            let queue = self.messages[&id].queue.clone();
            self.record_action(now, by, kind.as_str(), Some(&queue), Some(id));
            let state = match self.become_head(entry, now) {
                Admission::Waiting => StateKind::Waiting,
                Admission::Ready => {
                    batches.entry(queue).or_default().push(entry);
                    StateKind::Ready
                }
            };
            let answer = Move::Moved { state };
            answers.push(MoveResult { id, answer });
        }
        for (queue, entries) in batches {
            self.make_ready(&queue, now, &entries, false);
        }
        Ok(answers)
    }

    /// Holds ready and waiting messages. A held message stays the head, or keeps its place in the group.
    pub fn hold(&mut self, now: Timestamp, ids: &[MessageId], by: &By) -> Result<Vec<MoveResult>> {
        by.validate()?;
        let mut answers = Vec::new();
        for id in ids.iter().copied().collect::<BTreeSet<_>>() {
            let state = self.state(id).map(|state| state.kind());
            if let Some(answer) = OperatorMove::Hold.refusal(state) {
                answers.push(MoveResult { id, answer });
                continue;
            }
            let entry = self
                .take_from_ready(id)
                .or_else(|| self.take_from_waiting(id));
            let row = HeldRow {
                at: now,
                reason: by.reason.clone(),
                entry: entry.expect("invariant: ready or waiting"),
            };
            self.held.insert(id, row);
            let queue = self.messages[&id].queue.clone();
            self.record_action(now, by, "hold", Some(&queue), Some(id));
            let answer = Move::Moved {
                state: StateKind::Held,
            };
            answers.push(MoveResult { id, answer });
        }
        Ok(answers)
    }

    /// Returns a message with its payload and records the access in the audit.
    pub fn reveal(&mut self, now: Timestamp, id: MessageId, by: &By) -> Result<Option<Message>> {
        by.validate()?;
        let Some(message) = self.messages.get(&id).cloned() else {
            return Ok(None);
        };
        self.record_action(now, by, "reveal", Some(&message.queue), Some(id));
        Ok(Some(message))
    }

    /// Enqueues a copy of a message as a new one.
    pub fn resend(
        &mut self,
        now: Timestamp,
        id: MessageId,
        payload: Option<&Payload>,
        by: &By,
    ) -> Result<Option<MessageId>> {
        // The longest id that the record may have to name.
        by.of_copy(MessageId(i64::MAX))?;
        let Some(message) = self.messages.get(&id) else {
            return Ok(None);
        };
        if self.erasures.contains_key(&id) {
            return Err(resent_erased(id));
        }
        let copy = message.copy(payload);
        let receipts = self.enqueue(now, &[copy])?;
        let copy = receipts[0].id;
        let queue = self.messages[&id].queue.clone();
        self.record_action(now, &by.of_copy(copy)?, "resend", Some(&queue), Some(id));
        Ok(Some(copy))
    }

    pub(super) fn take_from_ready(&mut self, id: MessageId) -> Option<Entry> {
        let (key, batch) = self
            .ready
            .iter_mut()
            .find(|(_, batch)| batch.entries.iter().any(|e| e.id == id))?;
        let key = key.clone();
        let index = batch.entries.iter().position(|entry| entry.id == id)?;
        let entry = batch.entries.remove(index);
        if batch.entries.is_empty() {
            self.ready.remove(&key);
        }
        Some(entry)
    }

    pub(super) fn take_from_waiting(&mut self, id: MessageId) -> Option<Entry> {
        let key = self
            .waiting
            .keys()
            .find(|(_, _, waiting)| *waiting == id)?
            .clone();
        self.waiting.remove(&key).map(|row| row.entry)
    }
}
