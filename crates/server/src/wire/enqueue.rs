//! Enqueueing.

use std::time::Duration;

use consign_kernel::{Enqueued, LaneName, MessageId, NewMessage, StateKind};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::shapes;

/// A message for the lane in the path.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewMessageBody {
    /// What to deliver: any JSON.
    payload: Value,
    /// Idempotency key, unique in its lane; the `Idempotency-Key` header says the same.
    #[serde(default)]
    pub(crate) key: Option<String>,
    /// Ordering key, honoured in ordered lanes.
    #[serde(default)]
    group: Option<String>,
    /// What travels beside the payload.
    #[serde(default)]
    #[schema(value_type = Object)]
    headers: Map<String, Value>,
    /// How long to rest before the first try.
    #[serde(default)]
    delay_ms: u64,
}

impl NewMessageBody {
    pub(crate) fn into_message(self, lane: LaneName) -> NewMessage {
        NewMessage {
            lane,
            key: self.key,
            group: self.group,
            payload: self.payload,
            headers: self.headers,
            delay: Duration::from_millis(self.delay_ms),
        }
    }
}

/// A message that names its lane.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LaneMessageBody {
    /// Where it goes.
    #[schema(value_type = String)]
    lane: LaneName,
    /// What to deliver: any JSON.
    payload: Value,
    /// Idempotency key, unique in its lane.
    #[serde(default)]
    key: Option<String>,
    /// Ordering key, honoured in ordered lanes.
    #[serde(default)]
    group: Option<String>,
    /// What travels beside the payload.
    #[serde(default)]
    #[schema(value_type = Object)]
    headers: Map<String, Value>,
    /// How long to rest before the first try.
    #[serde(default)]
    delay_ms: u64,
}

impl From<LaneMessageBody> for NewMessage {
    fn from(body: LaneMessageBody) -> Self {
        Self {
            lane: body.lane,
            key: body.key,
            group: body.group,
            payload: body.payload,
            headers: body.headers,
            delay: Duration::from_millis(body.delay_ms),
        }
    }
}

/// Messages to enqueue together: all or none.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BatchBody {
    /// The messages, of any lanes.
    pub(crate) messages: Vec<LaneMessageBody>,
}

/// What became of a message.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EnqueuedBody {
    /// The message: the new one, or the one that held the key already.
    #[schema(value_type = i64)]
    id: MessageId,
    /// Where it is.
    #[schema(value_type = shapes::StateWord)]
    state: StateKind,
    /// Whether the key was there already, so that nothing was written.
    pub(crate) duplicate: bool,
}

impl From<Enqueued> for EnqueuedBody {
    fn from(enqueued: Enqueued) -> Self {
        Self {
            id: enqueued.id,
            state: enqueued.state,
            duplicate: enqueued.duplicate,
        }
    }
}

/// What became of a batch, in its order.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BatchAnswer {
    pub(crate) messages: Vec<EnqueuedBody>,
}
