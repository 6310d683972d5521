//! The status of a worker.

use std::time::Duration;

pub use consign_kernel::BreakerState;
use consign_kernel::QueueName;
use serde::Serialize;

/// One queue as its worker sees it.
#[derive(Clone, Debug, Serialize)]
pub struct QueueStatus {
    /// The queue.
    pub queue: QueueName,
    /// The kind of its sink.
    pub sink: &'static str,
    /// Where its sink delivers to, without secrets.
    pub destination: String,
    /// Deliveries under way.
    pub in_flight: usize,
    /// Claimed and waiting for their turn.
    pub prefetched: usize,
    /// Whether a claim is under way, whose messages may be leased but show nowhere yet.
    #[serde(skip)]
    pub claiming: bool,
    /// Deliveries allowed at once by policy.
    pub concurrency: u32,
    /// Deliveries allowed at once for now, as the sink's answers suggest.
    pub concurrency_now: u32,
    /// Whether the queue is paused.
    pub paused: bool,
    /// The breaker of its sink.
    pub breaker: BreakerState,
    /// Since when the claim loop was last seen alive.
    pub last_tick_age: Duration,
    /// Results known but not yet recorded, because the database is gone.
    pub unrecorded: usize,
    /// The last failure to reach the database, if it has not been reached since.
    pub database_error: Option<String>,
}

/// All queues of a worker.
#[derive(Clone, Debug, Serialize)]
pub struct WorkerStatus {
    /// The name in leases and attempts.
    pub owner: String,
    /// Whether it has stopped claiming.
    pub draining: bool,
    /// Its queues.
    pub queues: Vec<QueueStatus>,
}
