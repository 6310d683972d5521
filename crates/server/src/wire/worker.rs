//! The worker of this process.

use consign_kernel::QueueName;
use consign_worker::{BreakerState, QueueStatus, WorkerStatus};
use serde::Serialize;
use utoipa::ToSchema;

/// A worker and its queues.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WorkerBody {
    /// Whether a worker runs in this process.
    running: bool,
    /// Its name in leases and attempts.
    owner: Option<String>,
    /// Whether it has stopped claiming.
    draining: bool,
    queues: Vec<QueueWorkerView>,
}

impl From<Option<WorkerStatus>> for WorkerBody {
    fn from(status: Option<WorkerStatus>) -> Self {
        let running = status.is_some();
        let (owner, draining, queues) = match status {
            Some(status) => (Some(status.owner), status.draining, status.queues),
            None => (None, false, Vec::new()),
        };
        Self {
            running,
            owner,
            draining,
            queues: queues.into_iter().map(QueueWorkerView::from).collect(),
        }
    }
}

/// One queue as its worker sees it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct QueueWorkerView {
    #[schema(value_type = String)]
    pub(crate) queue: QueueName,
    /// The kind of its sink.
    sink: &'static str,
    /// Where its sink delivers to.
    destination: String,
    /// Deliveries under way.
    in_flight: usize,
    /// Claimed and waiting for their turn.
    prefetched: usize,
    /// Deliveries allowed at once by policy.
    concurrency: u32,
    /// Deliveries allowed at once for now.
    concurrency_now: u32,
    paused: bool,
    #[schema(value_type = BreakerWord)]
    breaker: BreakerState,
    /// How long ago the claim loop was seen alive.
    last_tick_age_seconds: f64,
    /// Results known but not yet recorded.
    unrecorded: usize,
    /// The last failure to reach the database, if it has not been reached since.
    database_error: Option<String>,
}

impl From<QueueStatus> for QueueWorkerView {
    fn from(status: QueueStatus) -> Self {
        Self {
            queue: status.queue,
            sink: status.sink,
            destination: status.destination,
            in_flight: status.in_flight,
            prefetched: status.prefetched,
            concurrency: status.concurrency,
            concurrency_now: status.concurrency_now,
            paused: status.paused,
            breaker: status.breaker,
            last_tick_age_seconds: status.last_tick_age.as_secs_f64(),
            unrecorded: status.unrecorded,
            database_error: status.database_error,
        }
    }
}

/// Whether deliveries to a sink are let through.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[expect(dead_code, reason = "described, never constructed")]
pub(crate) enum BreakerWord {
    Closed,
    Open,
    HalfOpen,
}
