//! Erasure: content goes, history stays.

use std::collections::BTreeSet;

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{ErasureRow, Reference};
use crate::{
    By, Erase, Erasure, ErasureAnswer, ErasureResult, ErasureTarget, MessageId, PAGE_ENTRIES_MAX,
    Payload, ReferenceStore, Step, Token, error::Result, plan::ErasureCandidate,
};

#[async_trait]
impl Erase for ReferenceStore {
    async fn erase(&self, target: &ErasureTarget, by: &By) -> Result<Vec<ErasureResult>> {
        self.at(|reference, now| reference.erase(now, target, by))
    }

    async fn due_erasures(&self, limit: u32) -> Result<Vec<(MessageId, Erasure)>> {
        Ok(self.at(|reference, _| reference.due_erasures(limit)))
    }

    async fn record_cleared(&self, token: Token, ids: &[MessageId]) -> Result<Step<()>> {
        Ok(self.at(|reference, now| {
            reference.maintain(now, token, |reference, _| {
                reference.due_erasures.retain(|id| !ids.contains(id));
                Step::Done(())
            })
        }))
    }
}

impl Reference {
    /// Erases the messages of a target.
    pub fn erase(
        &mut self,
        now: Timestamp,
        target: &ErasureTarget,
        by: &By,
    ) -> Result<Vec<ErasureResult>> {
        by.validate()?;
        target.validate()?;
        let mut results = Vec::new();
        for id in self.erasure_ids(target) {
            let answer = self.erasure_refusal(target, id).unwrap_or_else(|| {
                self.erase_one(now, id, by);
                ErasureAnswer::Erased
            });
            results.push(ErasureResult { id, answer });
        }
        Ok(results)
    }

    fn erasure_ids(&self, target: &ErasureTarget) -> BTreeSet<MessageId> {
        match target {
            ErasureTarget::Ids(ids) => ids.iter().copied().collect(),
            ErasureTarget::Key { queue, key } => {
                let place = (queue.clone(), key.clone());
                let former = self.former_keys.get(&place).map(|key| key.message_id);
                self.keys
                    .get(&place)
                    .copied()
                    .or(former)
                    .into_iter()
                    .collect()
            }
            ErasureTarget::Correlation { id, after } => {
                let matches = |message: &&crate::Message| message.correlation_id() == Some(id);
                let found = self.messages.values().filter(matches);
                let found = found.map(|message| message.id);
                let next = found.filter(|id| after.is_none_or(|after| *id > after));
                next.take(PAGE_ENTRIES_MAX as usize).collect()
            }
        }
    }

    fn erasure_refusal(&self, target: &ErasureTarget, id: MessageId) -> Option<ErasureAnswer> {
        let Some(state) = self.state(id) else {
            return Some(match target {
                ErasureTarget::Key { .. } => ErasureAnswer::Departed,
                _ => ErasureAnswer::NoSuchMessage,
            });
        };
        let group = self.group_of(id);
        ErasureCandidate {
            state: state.kind(),
            is_erased: self.erasures.contains_key(&id),
            is_head: group.is_some_and(|group| self.heads.get(&group) == Some(&id)),
            is_of_app: false,
            is_needed: false,
        }
        .refusal()
    }

    fn erase_one(&mut self, now: Timestamp, id: MessageId, by: &By) {
        let message = self
            .messages
            .get_mut(&id)
            .expect("invariant: it has a state");
        let queue = message.queue.clone();
        let row = ErasureRow {
            queue: queue.clone(),
            digest: message.payload.digest(),
            erasure: Erasure {
                at: now,
                actor: by.actor.clone(),
                reason: by.reason.clone(),
                digest: message.payload.digest_hex(),
            },
        };
        message.payload = Payload::from(Value::Null);
        message.headers = Map::new();
        for (_, attempt) in self.attempts.range_mut((id, 0)..=(id, u32::MAX)) {
            (attempt.detail, attempt.result) = (None, None);
        }
        for late in self.late.values_mut().filter(|late| late.message_id == id) {
            (late.detail, late.result) = (None, None);
        }
        if let Some(dead) = self.dead.get_mut(&id) {
            dead.detail = None;
        }
        self.erasures.insert(id, row);
        self.due_erasures.insert(id);
        self.record_action(now, by, "erase", Some(&queue), Some(id));
    }

    /// The erasures that the archive is still to be cleared of, by id.
    pub fn due_erasures(&self, limit: u32) -> Vec<(MessageId, Erasure)> {
        let due = self.due_erasures.iter().take(limit as usize);
        due.filter_map(|id| Some((*id, self.erasure(*id)?)))
            .collect()
    }

    /// The erasure of a message, if it was erased.
    pub(super) fn erasure(&self, id: MessageId) -> Option<Erasure> {
        self.erasures.get(&id).map(|row| row.erasure.clone())
    }
}
