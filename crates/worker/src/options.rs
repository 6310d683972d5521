//! Options of a worker and of its queues.

use std::{fmt, sync::Arc, time::Duration};

use consign_kernel::{LEASE_MESSAGES_MAX, QueueName};

use crate::{Delivery, Sink};

/// One queue to work on, and where its messages go.
#[derive(Clone, Debug)]
pub struct QueueWork {
    /// The queue. Its policy (concurrency, rate, timeout, lease time) is read from the store, again
    /// and again, so that changes need no restart.
    pub queue: QueueName,
    /// Where its messages go. Queues that share one instance share its circuit breaker.
    pub sink: Arc<dyn Sink>,
    /// When its sink counts as down. Of queues that share a breaker, the first one's options hold.
    pub breaker: BreakerOptions,
    /// A queue before this one whose sink is another instance with the same destination: they share
    /// a circuit breaker too.
    pub same_destination_as: Option<QueueName>,
    /// Whether messages are claimed for free slots only, never ahead: where a message that waits
    /// in a lease is worse than a slot that waits for a message.
    pub only_free_slots: bool,
    /// Most messages of one claim; none: the worker's option.
    pub claim_max: Option<u32>,
    /// Whether a claim takes as many as `claim_max` allows, however slow the sink, and the next one
    /// follows when they are done: messages that are claimed together are recorded together.
    pub whole_batches: bool,
    /// The longest pause before the queue is polled again; none: the worker's
    /// option.
    pub poll_max: Option<Duration>,
}

impl QueueWork {
    /// A queue with the default breaker, claimed ahead as its speed suggests.
    pub fn new(queue: QueueName, sink: Arc<dyn Sink>) -> Self {
        Self {
            queue,
            sink,
            breaker: BreakerOptions::default(),
            same_destination_as: None,
            only_free_slots: false,
            claim_max: None,
            whole_batches: false,
            poll_max: None,
        }
    }
}

/// When a sink counts as down, and how long nothing is sent to it then.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BreakerOptions {
    /// Failures of the sink in a row that open the breaker.
    pub failures_max: u32,
    /// Share of failures within `window` that opens it too, from 0 to 1.
    pub failure_ratio: f64,
    /// How many deliveries a window needs before its ratio counts.
    pub samples_min: u32,
    /// How far back the ratio looks.
    pub window: Duration,
    /// Opens it too when a larger share than `failure_ratio` of this many last deliveries failed,
    /// however long ago they were; 0 does not, more than 64 are 64.
    pub last_calls: u32,
    /// How long nothing is sent at first; doubles with every failed probe.
    pub pause_min: Duration,
    /// How long nothing is sent at most.
    pub pause_max: Duration,
}

impl Default for BreakerOptions {
    fn default() -> Self {
        Self {
            failures_max: 5,
            failure_ratio: 0.5,
            samples_min: 20,
            window: Duration::from_secs(10),
            last_calls: 0,
            pause_min: Duration::from_secs(1),
            pause_max: Duration::from_secs(60),
        }
    }
}

/// Called with the span of each delivery before it starts, while spans are enabled at all: the
/// place to continue the trace whose context travels in the message's headers.
pub type SpanHook = Arc<dyn Fn(&tracing::Span, &Delivery) + Send + Sync>;

/// Settings of a worker.
#[derive(Clone)]
pub struct WorkerOptions {
    /// The owner in leases and attempts; choose a name that operators recognise.
    pub owner: String,
    /// How long deliveries under way may take to finish once the worker drains.
    pub grace: Duration,
    /// How long a result may wait for others of its lease, to be recorded together.
    pub settle_window: Duration,
    /// Whether the store can be woken by an enqueue. Without (a transaction pooler and no direct
    /// connection, for instance) queues are polled as with `notify = false`.
    pub notified: bool,
    /// The poll interval without wake-ups, right after it had work.
    pub poll_min: Duration,
    /// The poll interval without wake-ups, once it has been idle for a while.
    pub poll_max: Duration,
    /// How long to rely on wake-ups before polling anyway.
    pub wait_max: Duration,
    /// Most messages of a queue claimed at once, and waiting for their delivery at any time.
    pub prefetch_max: u32,
    /// Most bytes of messages claimed and not yet delivered, in all queues together. A queue that has
    /// none may claim one message all the same.
    pub claimed_max_bytes: usize,
    /// How old a queue's policy may get.
    pub policy_refresh: Duration,
    /// How long one store operation may take before it counts as failed, its outcome unknown.
    pub store_timeout: Duration,
    /// See [`SpanHook`].
    pub span_hook: Option<SpanHook>,
}

impl WorkerOptions {
    /// The defaults, under this name.
    pub fn new(owner: impl Into<String>) -> Self {
        Self {
            owner: owner.into(),
            grace: Duration::from_secs(25),
            settle_window: Duration::from_millis(3),
            notified: true,
            poll_min: Duration::from_millis(50),
            poll_max: Duration::from_secs(1),
            wait_max: Duration::from_secs(5),
            prefetch_max: 500,
            claimed_max_bytes: 64 * 1024 * 1024,
            policy_refresh: Duration::from_secs(3),
            store_timeout: Duration::from_secs(10),
            span_hook: None,
        }
    }

    /// The options within sensible bounds: no wait of zero length, which would spin, and none that
    /// no clock can reach.
    pub(crate) fn bounded(self) -> Self {
        let shortest = Duration::from_millis(1);
        let longest = Duration::from_secs(365 * 24 * 3600);
        let poll_min = self.poll_min.clamp(shortest, longest);
        Self {
            grace: self.grace.min(longest),
            settle_window: self.settle_window.min(longest),
            poll_min,
            poll_max: self.poll_max.clamp(poll_min, longest),
            wait_max: self.wait_max.clamp(shortest, longest),
            policy_refresh: self.policy_refresh.clamp(shortest, longest),
            store_timeout: self.store_timeout.clamp(shortest, longest),
            prefetch_max: self.prefetch_max.clamp(1, LEASE_MESSAGES_MAX),
            ..self
        }
    }
}

impl fmt::Debug for WorkerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerOptions")
            .field("owner", &self.owner)
            .field("grace", &self.grace)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clamps_senseless_options() {
        let clamped = WorkerOptions {
            grace: Duration::MAX,
            poll_min: Duration::ZERO,
            poll_max: Duration::ZERO,
            prefetch_max: u32::MAX,
            ..WorkerOptions::new("a")
        }
        .bounded();
        assert!(clamped.grace < Duration::MAX);
        assert_eq!(clamped.poll_min, Duration::from_millis(1));
        assert_eq!(clamped.poll_max, Duration::from_millis(1));
        assert_eq!(clamped.prefetch_max, LEASE_MESSAGES_MAX);
    }
}
