//! Messages: immutable facts to deliver.

use std::{fmt, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    AT_MAX, DELAY_MAX, HEADERS_BYTES_MAX, KEY_BYTES_MAX, PAYLOAD_DEPTH_MAX, Payload, QueueName,
    QueuePolicy, StateKind,
    error::{Error, Result},
    payload::{contains_nul, deeper_than, json_bytes},
    plan::later,
};

/// Identity of a message, given by the store, growing in order of enqueueing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MessageId(pub i64);

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// When a message is to be tried first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Due {
    /// So long after it was enqueued.
    In(Duration),
    /// At this time by the database's clock; at once if it has passed.
    At(Timestamp),
}

impl Due {
    /// At once.
    pub const NOW: Self = Self::In(Duration::ZERO);

    /// From a delay and a time, of which one may be given. A delay of zero is none.
    /// `index` is the message's position in its call.
    pub fn new(index: usize, delay: Duration, at: Option<Timestamp>) -> Result<Self> {
        match at {
            None => Ok(Self::In(delay)),
            Some(at) if delay.is_zero() => Ok(Self::At(at)),
            Some(at) => {
                let why = "a message is due after a delay or at a time: give one of them";
                let both = format!("{at}, with a delay of {}", delay_text(delay));
                Err(Error::out_of_bounds(
                    format!("message {index}: at"),
                    both,
                    why,
                ))
            }
        }
    }

    /// The time it stands for when the database's clock shows `now`: never before that, so that a
    /// message of the past does not overtake those that were enqueued before it.
    pub fn time(self, now: Timestamp) -> Timestamp {
        match self {
            Self::In(delay) => later(now, delay),
            Self::At(at) => whole_micros(at).max(now),
        }
    }

    /// Rejects a time that is too far ahead of `now`.
    pub fn validate_at(self, index: usize, now: Timestamp) -> Result<()> {
        match self {
            Self::At(at) if at > later(now, AT_MAX) => {
                let why = "must be at most ten years ahead";
                Err(Error::out_of_bounds(
                    format!("message {index}: at"),
                    at,
                    why,
                ))
            }
            _ => Ok(()),
        }
    }
}

/// A time rounded down to what every database can keep.
fn whole_micros(at: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(at.as_microsecond())
        .expect("invariant: fewer digits of a time are a time")
}

fn delay_text(delay: Duration) -> String {
    match jiff::SignedDuration::try_from(delay) {
        Ok(delay) => format!("{delay:#}"),
        Err(_) => format!("{} s", delay.as_secs()),
    }
}

/// A message to enqueue.
#[derive(Clone, Debug, PartialEq)]
pub struct NewMessage {
    /// Where it goes.
    pub queue: QueueName,
    /// Idempotency key, unique in its queue.
    pub key: Option<String>,
    /// Ordering key, honoured in ordered queues.
    pub group: Option<String>,
    /// What to deliver.
    pub payload: Payload,
    /// Headers; not compared when a key is repeated.
    pub headers: Map<String, Value>,
    /// When it is to be tried first.
    pub due: Due,
    /// From then on it is not sent any more, by the database's clock.
    pub expires_at: Option<Timestamp>,
}

impl NewMessage {
    /// A message with only a queue and a payload.
    pub fn new(queue: QueueName, payload: impl Into<Payload>) -> Self {
        Self {
            queue,
            key: None,
            group: None,
            payload: payload.into(),
            headers: Map::new(),
            due: Due::NOW,
            expires_at: None,
        }
    }

    /// The same message with an idempotency key.
    pub fn with_key(self, key: impl Into<String>) -> Self {
        Self {
            key: Some(key.into()),
            ..self
        }
    }

    /// The same message in a group.
    pub fn with_group(self, group: impl Into<String>) -> Self {
        Self {
            group: Some(group.into()),
            ..self
        }
    }

    /// The same message, not due before `delay` has passed.
    pub fn with_delay(self, delay: Duration) -> Self {
        let due = Due::In(delay);
        Self { due, ..self }
    }

    /// The same message, not due before `at` by the database's clock; at once if that has passed.
    pub fn with_at(self, at: Timestamp) -> Self {
        let due = Due::At(at);
        Self { due, ..self }
    }

    /// The same message, not to be sent from `at` on by the database's clock: it dies instead.
    pub fn with_expiry(self, at: Timestamp) -> Self {
        let expires_at = Some(at);
        Self { expires_at, ..self }
    }

    /// When it expires, rounded down to what every database can keep.
    pub fn expiry(&self) -> Option<Timestamp> {
        self.expires_at.map(whole_micros)
    }

    /// Rejects an expiry that leaves no time to send the message when the database's clock shows `now`.
    /// Not of a message whose key names an earlier one: nothing of it is stored.
    pub fn validate_expiry(&self, index: usize, now: Timestamp) -> Result<()> {
        let Some(expires_at) = self.expiry() else {
            return Ok(());
        };
        let refuse = |why: String| {
            let what = format!("message {index}: expires_at");
            Err(Error::out_of_bounds(what, expires_at, why))
        };
        let due_at = self.due.time(now);
        if expires_at <= due_at {
            return refuse(format!("must be after the message is due, {due_at}"));
        }
        if expires_at > later(now, AT_MAX) {
            return refuse("must be at most ten years ahead".to_owned());
        }
        Ok(())
    }

    /// Rejects what no store can keep; `index` is the message's position in its call.
    pub fn validate(&self, index: usize, policy: &QueuePolicy) -> Result<()> {
        let refuse =
            |what: &str, why: String| Err(Error::invalid(format!("message {index}: {what}"), why));
        for (what, text) in [("key", &self.key), ("group", &self.group)] {
            let Some(text) = text else { continue };
            if text.is_empty() || text.len() > KEY_BYTES_MAX || text.contains('\0') {
                return refuse(
                    what,
                    format!(
                        "has {} bytes; must be 1 to {KEY_BYTES_MAX} without U+0000",
                        text.len()
                    ),
                );
            }
        }
        if let Some(refusal) = self.payload.refusal() {
            return Err(refusal.clone().named(&format!("message {index}: payload")));
        }
        let mut headers = self.headers.values();
        if headers.any(|value| deeper_than(value, PAYLOAD_DEPTH_MAX)) {
            let why = format!("are nested more than {PAYLOAD_DEPTH_MAX} levels deep");
            return refuse("headers", why);
        }
        if self
            .headers
            .iter()
            .any(|(name, value)| name.contains('\0') || contains_nul(value))
        {
            return refuse(
                "headers",
                "contain U+0000, which JSON columns cannot store".into(),
            );
        }
        if json_bytes(&self.headers) > HEADERS_BYTES_MAX {
            return refuse("headers", format!("are over {HEADERS_BYTES_MAX} bytes"));
        }
        if matches!(self.due, Due::In(delay) if delay > DELAY_MAX) {
            return refuse("delay", "is more than a year".into());
        }
        let bytes = self.payload.as_str().len();
        let bytes_max = policy.payload_max_bytes;
        if bytes > bytes_max {
            let queue = self.queue.clone();
            return Err(Error::PayloadTooLarge {
                index,
                queue,
                bytes,
                bytes_max,
            });
        }
        Ok(())
    }
}

/// A message as stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Message {
    /// Number that the store gave the message; never reused.
    pub id: MessageId,
    /// Queue whose policy applies.
    pub queue: QueueName,
    /// Idempotency key: unique in its queue, 1 to 512 bytes.
    pub key: Option<String>,
    /// Ordering key: an ordered queue delivers its messages one after another.
    pub group: Option<String>,
    /// What to deliver.
    pub payload: Payload,
    /// Delivered beside the payload.
    pub headers: Map<String, Value>,
    /// When it was enqueued.
    pub created_at: Timestamp,
    /// From then on it is not sent any more, by the database's clock.
    pub expires_at: Option<Timestamp>,
}

/// Header that ties messages of one case together; only a text counts.
pub const CORRELATION_ID: &str = "correlation_id";
/// Header of a message that an operator sent again as a new one: the id of the former.
pub const RESENT_HEADER: &str = "consign_resent_from";

impl Message {
    /// The same as a new message, with another payload if one is given.
    pub fn copy(&self, payload: Option<&Payload>) -> NewMessage {
        let mut headers = self.headers.clone();
        headers.insert(RESENT_HEADER.to_owned(), self.id.to_string().into());
        NewMessage {
            group: self.group.clone(),
            headers,
            ..NewMessage::new(self.queue.clone(), payload.unwrap_or(&self.payload).clone())
        }
    }

    /// How many bytes its payload and headers take as compact JSON.
    pub fn bytes(&self) -> usize {
        self.payload.as_str().len() + json_bytes(&self.headers)
    }

    /// Whether its time has passed, when the database's clock shows `now`.
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }

    /// Its correlation id, from its headers.
    pub fn correlation_id(&self) -> Option<&str> {
        self.headers.get(CORRELATION_ID)?.as_str()
    }
}

/// The answer to enqueueing one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Receipt {
    /// The message: the new one, or the one that held the key already.
    pub id: MessageId,
    /// Whether the key existed, so that nothing was written.
    pub duplicate: bool,
    /// Where that message is now.
    pub state: StateKind,
}
