//! Enqueueing: all messages or none.

use async_trait::async_trait;
use jiff::Timestamp;

use super::{ErasureRow, Reference, groups::Admission};
use crate::{
    Message, MessageId, NewMessage, Produce, QueueName, Receipt, ReferenceStore, StateKind,
    error::Result,
    plan::{self, Duplicate, Entry, KeyHolder},
};

#[async_trait]
impl Produce for ReferenceStore {
    async fn enqueue(&self, messages: &[NewMessage]) -> Result<Vec<Receipt>> {
        self.at(|reference, now| reference.enqueue(now, messages))
    }
}

impl Reference {
    /// Enqueues all messages or none.
    pub fn enqueue(&mut self, now: Timestamp, messages: &[NewMessage]) -> Result<Vec<Receipt>> {
        for (index, message) in messages.iter().enumerate() {
            message.validate(index, &self.known_queue(&message.queue)?.policy)?;
            message.due.validate_at(index, now)?;
        }
        let duplicates = plan::duplicates(messages, |queue, key| self.key_holder(queue, key))?;
        plan::validate_expiries(messages, &duplicates, now)?;
        let ids = plan::ids(self.last_message, &duplicates);
        let mut ready = Vec::new();
        for ((message, duplicate), id) in messages.iter().zip(&duplicates).zip(&ids) {
            if *duplicate == Duplicate::None {
                self.insert(now, message, *id);
                let entry = Entry::new(*id);
                if let Admission::Ready = self.become_head(entry, message.due.time(now)) {
                    ready.push((message, entry));
                }
            }
        }
        for ((queue, due_at), entries) in plan::batches(now, ready) {
            self.make_ready(queue, due_at, &entries, false);
        }
        let answer = |(id, duplicate): (&MessageId, &Duplicate)| Receipt {
            id: *id,
            duplicate: *duplicate != Duplicate::None,
            state: match duplicate {
                Duplicate::Former { state, .. } => *state,
                _ => self.kind(*id),
            },
        };
        Ok(ids.iter().zip(&duplicates).map(answer).collect())
    }

    /// The message that has a key, in the store or before it left.
    fn key_holder(&self, queue: &QueueName, key: &str) -> Option<KeyHolder<'_>> {
        let place = (queue.clone(), key.to_owned());
        if let Some(id) = self.keys.get(&place) {
            let Message { payload, group, .. } = &self.messages[id];
            let id = *id;
            return Some(match self.erasures.get(&id) {
                None => KeyHolder::Stored { id, payload, group },
                Some(ErasureRow { digest, .. }) => KeyHolder::Former {
                    id,
                    digest,
                    group,
                    state: self.kind(id),
                },
            });
        }
        let former = self.former_keys.get(&place)?;
        Some(KeyHolder::Former {
            id: former.message_id,
            digest: &former.digest,
            group: &former.group,
            state: former.state,
        })
    }

    fn insert(&mut self, now: Timestamp, new: &NewMessage, id: MessageId) {
        self.last_message = id.0;
        let message = Message {
            id,
            queue: new.queue.clone(),
            key: new.key.clone(),
            group: new.group.clone(),
            payload: new.payload.clone(),
            headers: new.headers.clone(),
            created_at: now,
            expires_at: new.expiry(),
        };
        if let Some(key) = &new.key {
            self.keys.insert((new.queue.clone(), key.clone()), id);
        }
        self.messages.insert(id, message);
    }

    /// Where a message is, for answers; `Ready` for one whose batch is about to be written.
    pub(super) fn kind(&self, id: MessageId) -> StateKind {
        self.state(id)
            .map_or(StateKind::Ready, |state| state.kind())
    }
}
