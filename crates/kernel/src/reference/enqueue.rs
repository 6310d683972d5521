//! Enqueueing: all messages or none.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;

use super::{Entry, Reference, groups::Place, later};
use crate::{
    Enqueued, Message, MessageId, NewMessage, Payload, QueueName, StateKind,
    error::{Error, Result},
};

impl Reference {
    /// Enqueues all messages or none.
    pub fn enqueue(&mut self, now: Timestamp, messages: &[NewMessage]) -> Result<Vec<Enqueued>> {
        let twins = self.check_batch(messages)?;
        let mut ids: Vec<MessageId> = Vec::with_capacity(messages.len());
        let mut runs: Vec<((QueueName, Duration), Vec<Entry>)> = Vec::new();
        for (message, twin) in messages.iter().zip(&twins) {
            let id = match twin {
                Twin::None => self.insert(now, message, &mut runs),
                Twin::Stored(id) => *id,
                Twin::InBatch(index) => ids[*index],
            };
            ids.push(id);
        }
        for ((queue, delay), entries) in runs {
            self.make_ready(&queue, later(now, delay), &entries, false);
        }
        let answer = |(id, twin): (&MessageId, &Twin)| Enqueued {
            id: *id,
            duplicate: !matches!(twin, Twin::None),
            state: self.kind(*id),
        };
        Ok(ids.iter().zip(&twins).map(answer).collect())
    }

    /// Checks everything before anything is written, and finds the messages whose key is taken.
    fn check_batch(&self, messages: &[NewMessage]) -> Result<Vec<Twin>> {
        for (index, message) in messages.iter().enumerate() {
            message.validate(index, &self.known_queue(&message.queue)?.policy)?;
        }
        let mut in_batch: BTreeMap<(&QueueName, &str), usize> = BTreeMap::new();
        let mut twins = Vec::with_capacity(messages.len());
        for (index, message) in messages.iter().enumerate() {
            let Some(key) = &message.key else {
                twins.push(Twin::None);
                continue;
            };
            if let Some(&id) = self.keys.get(&(message.queue.clone(), key.clone())) {
                let stored = &self.messages[&id];
                self.same_or_conflict(message, Some(id), &stored.payload, &stored.group)?;
                twins.push(Twin::Stored(id));
            } else if let Some(&first) = in_batch.get(&(&message.queue, key.as_str())) {
                let twin = &messages[first];
                self.same_or_conflict(message, None, &twin.payload, &twin.group)?;
                twins.push(Twin::InBatch(first));
            } else {
                in_batch.insert((&message.queue, key), index);
                twins.push(Twin::None);
            }
        }
        Ok(twins)
    }

    fn same_or_conflict(
        &self,
        message: &NewMessage,
        id: Option<MessageId>,
        payload: &Payload,
        group: &Option<String>,
    ) -> Result<()> {
        if message.payload == *payload && message.group == *group {
            return Ok(());
        }
        let key = message
            .key
            .clone()
            .expect("invariant: only keyed messages conflict");
        Err(Error::KeyConflict {
            queue: message.queue.clone(),
            key,
            id,
        })
    }

    fn insert(
        &mut self,
        now: Timestamp,
        new: &NewMessage,
        runs: &mut Vec<((QueueName, Duration), Vec<Entry>)>,
    ) -> MessageId {
        self.last_message += 1;
        let id = MessageId(self.last_message);
        let message = Message {
            id,
            queue: new.queue.clone(),
            key: new.key.clone(),
            group: new.group.clone(),
            payload: new.payload.clone(),
            headers: new.headers.clone(),
            created_at: now,
        };
        if let Some(key) = &new.key {
            self.keys.insert((new.queue.clone(), key.clone()), id);
        }
        self.messages.insert(id, message);
        let entry = Entry {
            id,
            tries: 0,
            attempts: 0,
        };
        if let Place::Ready = self.take_turn(entry, later(now, new.delay)) {
            let to = (new.queue.clone(), new.delay);
            match runs.iter_mut().find(|(run, _)| *run == to) {
                Some((_, entries)) => entries.push(entry),
                None => runs.push((to, vec![entry])),
            }
        }
        id
    }

    /// Where a message is, for answers; `Ready` for one whose run is about to be written.
    pub(super) fn kind(&self, id: MessageId) -> StateKind {
        self.state(id)
            .map_or(StateKind::Ready, |state| state.kind())
    }
}

/// Whether a message's key is taken, and by whom.
enum Twin {
    None,
    Stored(MessageId),
    /// By an earlier message of the same call.
    InBatch(usize),
}
