//! Enqueueing.

use std::time::Duration;

use consign_kernel::{
    Due, MessageId, NewMessage, Payload, QueueName, Receipt, Result, StateKind, exact_headers,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};
use utoipa::ToSchema;

use super::shapes;

/// A message for the queue in the path.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewMessageBody {
    /// What to deliver: any JSON, kept exactly.
    #[schema(value_type = Value)]
    payload: Box<RawValue>,
    /// Idempotency key, unique in its queue; the same as the `Idempotency-Key` header.
    #[serde(default)]
    pub(crate) key: Option<String>,
    /// Ordering key, honoured in ordered queues.
    #[serde(default)]
    group: Option<String>,
    /// Headers of the message.
    #[serde(default, deserialize_with = "exact_headers")]
    #[schema(value_type = Object)]
    headers: Map<String, Value>,
    /// Delay before the first attempt.
    #[serde(default)]
    delay_ms: u64,
    /// The time of the first attempt instead, with its offset: at once if it has passed.
    #[serde(default)]
    at: Option<Timestamp>,
    /// A time after that, with its offset: from then on it is not sent any more and dies.
    #[serde(default)]
    expires_at: Option<Timestamp>,
}

impl NewMessageBody {
    /// The message, if its payload takes no more than `bytes_max`.
    pub(crate) fn into_message(self, queue: QueueName, bytes_max: usize) -> Result<NewMessage> {
        Ok(NewMessage {
            queue,
            key: self.key,
            group: self.group,
            payload: payload(&self.payload, 0, bytes_max)?,
            headers: self.headers,
            due: Due::new(0, Duration::from_millis(self.delay_ms), self.at)?,
            expires_at: self.expires_at,
        })
    }
}

/// A message that names its queue.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct QueueMessageBody {
    /// Where it goes.
    #[schema(value_type = String)]
    queue: QueueName,
    /// What to deliver: any JSON, kept exactly.
    #[schema(value_type = Value)]
    payload: Box<RawValue>,
    /// Idempotency key, unique in its queue.
    #[serde(default)]
    key: Option<String>,
    /// Ordering key, honoured in ordered queues.
    #[serde(default)]
    group: Option<String>,
    /// Headers of the message.
    #[serde(default, deserialize_with = "exact_headers")]
    #[schema(value_type = Object)]
    headers: Map<String, Value>,
    /// Delay before the first attempt.
    #[serde(default)]
    delay_ms: u64,
    /// The time of the first attempt instead, with its offset: at once if it has passed.
    #[serde(default)]
    at: Option<Timestamp>,
    /// A time after that, with its offset: from then on it is not sent any more and dies.
    #[serde(default)]
    expires_at: Option<Timestamp>,
}

/// The messages of a batch, if their payloads take no more than `bytes_max` together.
pub(crate) fn into_messages(
    bodies: Vec<QueueMessageBody>,
    mut bytes_max: usize,
) -> Result<Vec<NewMessage>> {
    let message = |(index, body): (usize, QueueMessageBody)| {
        let payload = payload(&body.payload, index, bytes_max)?;
        bytes_max -= payload.as_str().len();
        Ok(NewMessage {
            queue: body.queue,
            key: body.key,
            group: body.group,
            payload,
            headers: body.headers,
            due: Due::new(index, Duration::from_millis(body.delay_ms), body.at)?,
            expires_at: body.expires_at,
        })
    };
    bodies.into_iter().enumerate().map(message).collect()
}

/// Payloads are bounded once more after the body was: a number of few bytes may be long written
/// out.
fn payload(raw: &RawValue, index: usize, bytes_max: usize) -> Result<Payload> {
    let payload = Payload::parse_within(raw.get(), bytes_max);
    payload.map_err(|error| error.named(&format!("message {index}: payload")))
}

/// Messages to enqueue together: all or none.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BatchBody {
    /// The messages, of any queues.
    pub(crate) messages: Vec<QueueMessageBody>,
}

/// The result of enqueueing a message.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EnqueuedBody {
    /// The message: the new one, or the one that held the key already.
    #[schema(value_type = i64)]
    id: MessageId,
    /// Where it is.
    #[schema(value_type = shapes::StateWord)]
    state: StateKind,
    /// Whether the key existed, so that nothing was written.
    pub(crate) duplicate: bool,
}

impl From<Receipt> for EnqueuedBody {
    fn from(enqueued: Receipt) -> Self {
        Self {
            id: enqueued.id,
            state: enqueued.state,
            duplicate: enqueued.duplicate,
        }
    }
}

/// The results of a batch, in its order.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BatchAnswer {
    pub(crate) messages: Vec<EnqueuedBody>,
}
