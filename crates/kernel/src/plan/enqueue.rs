//! Which messages of a call are new, and where the new ones go.

use std::collections::HashMap;

use jiff::Timestamp;

use super::Entry;
use crate::{
    MessageId, NewMessage, Payload, QueueName, StateKind,
    error::{Error, Result},
};

/// Whether a message's key is taken, and by which message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicate {
    /// It is a new message.
    None,
    /// By this message.
    Stored(MessageId),
    /// By a message that has left the store, or was erased.
    Former {
        /// Number that the store gave the message; never reused.
        id: MessageId,
        /// Delivered or dead, which is final.
        state: StateKind,
    },
    /// By an earlier message of the same call.
    InCall(usize),
}

/// The message that has a key, with what a repeated key is compared by.
#[derive(Clone, Copy, Debug)]
pub enum KeyHolder<'s> {
    /// A message in the store.
    Stored {
        /// Number that the store gave the message; never reused.
        id: MessageId,
        /// JSON document to deliver; a repeated key must carry an equal one.
        payload: &'s Payload,
        /// Ordering key: an ordered queue delivers its messages one after another.
        group: &'s Option<String>,
    },
    /// A message whose payload is gone: it has left, or was erased.
    Former {
        /// Number that the store gave the message; never reused.
        id: MessageId,
        /// The digest of its payload, as the store computes it.
        digest: &'s [u8; 32],
        /// Ordering key: an ordered queue delivers its messages one after another.
        group: &'s Option<String>,
        /// Delivered or dead.
        state: StateKind,
    },
}

impl KeyHolder<'_> {
    fn id(&self) -> MessageId {
        match self {
            Self::Stored { id, .. } | Self::Former { id, .. } => *id,
        }
    }

    /// Whether a message with the same key is a repetition.
    fn equals(&self, message: &NewMessage) -> bool {
        match self {
            Self::Stored { payload, group, .. } => {
                message.payload == **payload && message.group == **group
            }
            Self::Former { digest, group, .. } => {
                message.group == **group && message.payload.digest() == **digest
            }
        }
    }

    fn duplicate(&self) -> Duplicate {
        match *self {
            Self::Stored { id, .. } => Duplicate::Stored(id),
            Self::Former { id, state, .. } => Duplicate::Former { id, state },
        }
    }
}

/// Finds the messages whose key is taken; refuses those that differ from the message that has it.
///
/// `holder` looks up the message that has a key.
pub fn duplicates<'m, 's>(
    messages: &'m [NewMessage],
    holder: impl Fn(&'m QueueName, &'m str) -> Option<KeyHolder<'s>>,
) -> Result<Vec<Duplicate>> {
    let mut in_call: HashMap<(&QueueName, &str), usize> = HashMap::new();
    let mut duplicates = Vec::with_capacity(messages.len());
    for (index, message) in messages.iter().enumerate() {
        let Some(key) = message.key.as_deref() else {
            duplicates.push(Duplicate::None);
            continue;
        };
        let place = (&message.queue, key);
        if let Some(holder) = holder(&message.queue, key) {
            if !holder.equals(message) {
                return Err(key_conflict(message, Some(holder.id())));
            }
            duplicates.push(holder.duplicate());
        } else if let Some(first) = in_call.get(&place) {
            let earlier = &messages[*first];
            if (&message.payload, &message.group) != (&earlier.payload, &earlier.group) {
                return Err(key_conflict(message, None));
            }
            duplicates.push(Duplicate::InCall(*first));
        } else {
            in_call.insert(place, index);
            duplicates.push(Duplicate::None);
        }
    }
    Ok(duplicates)
}

/// Rejects new messages that leave no time to be sent.
pub fn validate_expiries(
    messages: &[NewMessage],
    duplicates: &[Duplicate],
    now: Timestamp,
) -> Result<()> {
    for (index, (message, duplicate)) in messages.iter().zip(duplicates).enumerate() {
        if *duplicate == Duplicate::None {
            message.validate_expiry(index, now)?;
        }
    }
    Ok(())
}

/// The refusal of a message whose key is taken, by a stored message or one of the same call.
pub fn key_conflict(message: &NewMessage, id: Option<MessageId>) -> Error {
    Error::KeyConflict {
        queue: message.queue.clone(),
        key: message
            .key
            .clone()
            .expect("invariant: only keyed messages conflict"),
        id,
    }
}

/// The id of each message: the next one after `last`, or that of its duplicate.
pub fn ids(mut last: i64, duplicates: &[Duplicate]) -> Vec<MessageId> {
    let mut ids: Vec<MessageId> = Vec::with_capacity(duplicates.len());
    for duplicate in duplicates {
        ids.push(match duplicate {
            Duplicate::Stored(id) | Duplicate::Former { id, .. } => *id,
            Duplicate::InCall(first) => ids[*first],
            Duplicate::None => {
                last += 1;
                MessageId(last)
            }
        });
    }
    ids
}

/// The batches of a call: one per queue and due time, in the order of their first messages.
pub fn batches<'m>(
    now: Timestamp,
    ready: impl IntoIterator<Item = (&'m NewMessage, Entry)>,
) -> Vec<((&'m QueueName, Timestamp), Vec<Entry>)> {
    let mut batches: Vec<((&QueueName, Timestamp), Vec<Entry>)> = Vec::new();
    let mut places: HashMap<(&QueueName, Timestamp), usize> = HashMap::new();
    for (message, entry) in ready {
        let to = (&message.queue, message.due.time(now));
        let place = *places.entry(to).or_insert_with(|| {
            batches.push((to, Vec::new()));
            batches.len() - 1
        });
        batches[place].1.push(entry);
    }
    batches
}
