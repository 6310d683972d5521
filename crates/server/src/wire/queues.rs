//! Queues.

use consign_kernel::{Counts, PAGE_ENTRIES_MAX, Queue, QueueName, QueuePolicy};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

use super::{shapes, worker::QueueWorkerView};

/// A queue with what is in it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct QueueView {
    #[schema(value_type = String)]
    pub(crate) name: QueueName,
    #[schema(value_type = shapes::QueuePolicy)]
    policy: QueuePolicy,
    /// Since when nothing is claimed from it, if paused.
    paused_at: Option<Timestamp>,
    counts: CountsView,
    /// How long the oldest ready message has been due.
    oldest_ready_age_seconds: f64,
    /// The queue as the worker of this process sees it, if it works there.
    worker: Option<QueueWorkerView>,
}

impl QueueView {
    pub(crate) fn new(
        (queue, counts): (Queue, Counts),
        worker: Option<QueueWorkerView>,
        now: Timestamp,
    ) -> Self {
        let age = |due_at: Timestamp| now.duration_since(due_at).as_secs_f64().max(0.0);
        Self {
            name: queue.name,
            policy: queue.policy,
            paused_at: queue.paused_at,
            oldest_ready_age_seconds: counts.oldest_due_at.map_or(0.0, age),
            counts: counts.into(),
            worker,
        }
    }
}

/// How many messages of a queue are where. Delivered ones are not counted.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CountsView {
    waiting: u64,
    /// Ready and due.
    ready: u64,
    /// Ready, but due later.
    scheduled: u64,
    leased: u64,
    held: u64,
    dead: u64,
    /// When the oldest ready and due message became due.
    oldest_due_at: Option<Timestamp>,
}

impl From<Counts> for CountsView {
    fn from(counts: Counts) -> Self {
        Self {
            waiting: counts.waiting,
            ready: counts.ready,
            scheduled: counts.scheduled,
            leased: counts.leased,
            held: counts.held,
            dead: counts.dead,
            oldest_due_at: counts.oldest_due_at,
        }
    }
}

/// Queues by name.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct QueueList {
    pub(crate) queues: Vec<QueueView>,
    /// What to give as `after` for the next page; absent on the last one.
    #[schema(value_type = Option<String>)]
    pub(crate) next: Option<QueueName>,
}

/// Which queues.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct QueueParams {
    /// Only queues whose names come after this one.
    #[param(value_type = Option<String>)]
    pub(crate) after: Option<QueueName>,
    /// How many; 1,000 by default and at most.
    limit: Option<u32>,
}

impl QueueParams {
    pub(crate) fn limit(&self) -> u32 {
        let limit = self.limit.unwrap_or(PAGE_ENTRIES_MAX);
        limit.clamp(1, PAGE_ENTRIES_MAX)
    }
}

/// A queue to create or replace.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PutQueueBody {
    /// Its whole policy; missing fields take their default.
    #[serde(default)]
    #[schema(value_type = shapes::QueuePolicyChange)]
    pub(crate) policy: QueuePolicy,
    /// The reason, for the audit log.
    #[schema(required, value_type = String)]
    pub(crate) reason: Option<String>,
}

/// A change of a queue's policy.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PatchQueueBody {
    /// Fields of its policy; missing fields keep their value.
    #[schema(value_type = shapes::QueuePolicyChange)]
    pub(crate) policy: Map<String, Value>,
    /// The reason, for the audit log.
    #[schema(required, value_type = String)]
    pub(crate) reason: Option<String>,
}

/// A queue without its counts.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct QueueBody {
    #[schema(value_type = String)]
    name: QueueName,
    #[schema(value_type = shapes::QueuePolicy)]
    policy: QueuePolicy,
    /// Since when nothing is claimed from it, if paused.
    paused_at: Option<Timestamp>,
}

impl From<Queue> for QueueBody {
    fn from(queue: Queue) -> Self {
        Self {
            name: queue.name,
            policy: queue.policy,
            paused_at: queue.paused_at,
        }
    }
}
