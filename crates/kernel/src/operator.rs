//! Operator actions, and the audit log of them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    Fence, MessageId, OWNER_BYTES_MAX, Outcome, QueueName, StateKind,
    error::{Error, Result},
};

/// Who acts, and why. Every operator action is recorded with both.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct By {
    /// Who.
    pub actor: String,
    /// Why.
    pub reason: String,
}

impl By {
    /// Who and why.
    pub fn new(actor: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            actor: actor.into(),
            reason: reason.into(),
        }
    }

    /// Rejects an action without an actor or a reason.
    pub fn validate(&self) -> Result<()> {
        for (what, text, bytes_max) in [
            ("actor", &self.actor, OWNER_BYTES_MAX),
            ("reason", &self.reason, 4_096),
        ] {
            if text.trim().is_empty() || text.len() > bytes_max || text.contains('\0') {
                let why = format!("must be 1 to {bytes_max} bytes without U+0000");
                return Err(Error::out_of_bounds(what, crate::quoted(text), why));
            }
        }
        Ok(())
    }
}

impl By {
    /// The same for a message that was sent again, whose record names the copy.
    pub fn of_copy(&self, copy: MessageId) -> Result<Self> {
        // A blank reason is none, whatever stands before it.
        self.validate()?;
        let by = Self {
            actor: self.actor.clone(),
            reason: format!("as message {copy}: {}", self.reason),
        };
        by.validate()?;
        Ok(by)
    }

    /// The same for a lease, which the record names.
    pub fn of_lease(&self, fence: Fence, owner: &str) -> Result<Self> {
        let by = Self {
            actor: self.actor.clone(),
            reason: format!("{} (lease {fence} of {owner})", self.reason),
        };
        by.validate()?;
        Ok(by)
    }
}

/// A message whose content was erased cannot be sent again: there is none.
pub fn resent_erased(id: MessageId) -> Error {
    let why = "its content was erased: there is nothing to send; enqueue a new message";
    Error::invalid(format!("message {id}"), why)
}

impl By {
    /// The same for a problem, which the record names.
    pub fn of_problem(&self, problem: &str) -> Result<Self> {
        let by = Self {
            actor: self.actor.clone(),
            reason: format!("{} (problem {problem})", self.reason),
        };
        by.validate()?;
        Ok(by)
    }
}

/// The outcome of held messages that an operator determined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// The receiver has them.
    Delivered {
        /// The result, as JSON text: its numbers must stay exact. Queues whose app keeps results
        /// need it, one message at a time; every other queue rejects it.
        result: Option<String>,
    },
    /// The receiver does not have them, and they are not sent again.
    Dead,
    /// It cannot be determined. They are dead; if they are requeued, they are in doubt.
    Unknown,
}

impl Resolution {
    /// Delivered, without a result.
    pub const DELIVERED: Self = Self::Delivered { result: None };

    /// As in SQL and JSON.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Delivered { .. } => "delivered",
            Self::Dead => "dead",
            Self::Unknown => "unknown",
        }
    }

    /// What the attempt records.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Delivered { .. } => Outcome::Delivered,
            Self::Dead => Outcome::Dead,
            Self::Unknown => Outcome::Uncertain,
        }
    }

    /// Where the messages are afterwards.
    pub fn state(&self) -> StateKind {
        match self {
            Self::Delivered { .. } => StateKind::Delivered,
            Self::Dead | Self::Unknown => StateKind::Dead,
        }
    }

    /// The result, as JSON text.
    pub fn result(&self) -> Option<&str> {
        match self {
            Self::Delivered { result } => result.as_deref(),
            Self::Dead | Self::Unknown => None,
        }
    }

    /// Rejects one result for several messages.
    pub fn validate(&self, messages: usize) -> Result<()> {
        if self.result().is_some() && messages != 1 {
            let why =
                format!("applies to one message, {messages} were given; resolve one at a time");
            return Err(Error::invalid("result", why));
        }
        Ok(())
    }

    /// Rejects a result in a queue that takes none.
    pub fn refuse_result(&self, queue: &QueueName) -> Result<()> {
        if self.result().is_some() {
            let why = format!("queue {queue} takes none; leave it out");
            return Err(Error::invalid("result", why));
        }
        Ok(())
    }
}

/// The result of an operator's move of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Move {
    /// It is there now.
    Moved {
        /// Where.
        state: StateKind,
    },
    /// Only dead messages can be requeued.
    NotDead {
        /// Where it is.
        state: StateKind,
    },
    /// Only held messages can be unheld or resolved.
    NotHeld {
        /// Where it is.
        state: StateKind,
    },
    /// Only ready and waiting messages can be held.
    NotHoldable {
        /// Where it is.
        state: StateKind,
    },
    /// Only dead and held messages can be discarded.
    NotDiscardable {
        /// Where it is.
        state: StateKind,
    },
    /// Only ready and waiting messages can be cancelled.
    NotCancellable {
        /// Where it is.
        state: StateKind,
    },
    /// Its queue belongs to an app that has no such end, or that this process does not have.
    AppQueue,
    /// Its content was erased: there is nothing to send.
    Erased,
    /// There is no such message.
    NoSuchMessage,
}

/// The result of an operator's move, by message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MoveResult {
    /// Number that the store gave the message; never reused.
    pub id: MessageId,
    /// What was changed, or why nothing was.
    #[serde(flatten)]
    pub answer: Move,
}

/// An operator action as stored. Append-only, like attempts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AuditEntry {
    /// Grows with every entry.
    pub id: i64,
    /// When.
    pub at: Timestamp,
    /// Who.
    pub actor: String,
    /// What: `requeue`, `hold`, `unhold`, `resolve`, `discard`, `cancel`, `pause`, `resume`, `queue`, `end_lease`, `acknowledge`, `reopen`,
    /// `start_redrive`, `stop_redrive`, `resume_redrive`, `depart`, `erase`, `reveal`, `resend`.
    pub action: String,
    /// On which queue; none for a redrive of all queues and a departure.
    pub queue: Option<QueueName>,
    /// On which message, unless on the queue itself, a redrive or a departure.
    pub message_id: Option<MessageId>,
    /// Why.
    pub reason: String,
}
