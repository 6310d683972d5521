//! Erasure: the content of finished messages is removed, their history stays.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    MessageId, PAGE_ENTRIES_MAX, QueueName, StateKind,
    error::{Error, Result},
};

/// Which messages to erase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErasureTarget {
    /// These, at most 1,000.
    Ids(Vec<MessageId>),
    /// The message that has this key.
    Key {
        /// Queue whose policy applies.
        queue: QueueName,
        /// Idempotency key: unique in its queue, 1 to 512 bytes.
        key: String,
    },
    /// The first 1,000 messages with this correlation id. An erased message has none.
    Correlation {
        /// The text of their header `correlation_id`.
        id: String,
        /// Only messages with greater ids: after the last one of the results before.
        after: Option<MessageId>,
    },
}

impl ErasureTarget {
    /// Rejects more messages than a store erases in one transaction.
    pub fn validate(&self) -> Result<()> {
        match self {
            Self::Ids(ids) if ids.len() > PAGE_ENTRIES_MAX as usize => {
                let why = format!("are {}; one call erases {PAGE_ENTRIES_MAX}", ids.len());
                Err(Error::invalid("ids", why))
            }
            _ => Ok(()),
        }
    }

    /// Whether no message can match: no store keeps a text with U+0000.
    pub fn is_impossible(&self) -> bool {
        match self {
            Self::Ids(_) => false,
            Self::Key { key: text, .. } | Self::Correlation { id: text, .. } => text.contains('\0'),
        }
    }
}

/// The record of an erasure.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Erasure {
    /// When.
    pub at: Timestamp,
    /// Who.
    pub actor: String,
    /// Why.
    pub reason: String,
    /// SHA-256 of the payload that was erased, in lower-case hex, as the store computes it: the same for
    /// equal payloads of one store.
    pub digest: String,
}

impl Erasure {
    /// What is shown in place of the content.
    pub fn sentence(&self) -> String {
        let Self {
            at, actor, reason, ..
        } = self;
        format!("Its content was erased at {at:.3} by {actor}: {reason}.")
    }
}

/// The result of erasing one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum ErasureAnswer {
    /// Its content is gone.
    Erased,
    /// Its content was gone before; the earlier record stands.
    AlreadyErased,
    /// Only delivered, dead and discarded messages can be erased.
    NotFinal {
        /// Where it is.
        state: StateKind,
    },
    /// It is dead and the head of its group, which waits for it to be delivered.
    BlocksGroup,
    /// Its app needs its content until something that is unfinished ends.
    Needed,
    /// Its queue belongs to an app that cannot erase, or that this process does not have. The app has
    /// copies of its own.
    AppQueue,
    /// It has left the database; an archive may hold it.
    Departed,
    /// There is no such message.
    NoSuchMessage,
}

/// The result of an erasure, by message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ErasureResult {
    /// Number that the store gave the message; never reused.
    pub id: MessageId,
    /// What was changed, or why nothing was.
    #[serde(flatten)]
    pub answer: ErasureAnswer,
}
