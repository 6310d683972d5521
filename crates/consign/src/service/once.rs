//! `consign work --once`: what is due now, and no more.

use std::time::Duration;

use consign_kernel::{Result, Store};
use consign_worker::{BreakerState, WorkerHandle};
use tokio::time::{MissedTickBehavior, interval};

/// How often to look whether anything is left.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Ended leases to take back with each look.
const LEASES_MAX: u32 = 1_000;

/// Returns when nothing is due any more in the worker's queues, or its sinks are left alone.
pub(super) async fn nothing_is_due(worker: &WorkerHandle, store: &dyn Store) {
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        match is_done(worker, store).await {
            Ok(true) => return,
            Ok(false) => {}
            // The worker logs it too, and continues when the database is back.
            Err(error) => tracing::debug!("cannot read what is due: {error}"),
        }
    }
}

async fn is_done(worker: &WorkerHandle, store: &dyn Store) -> Result<bool> {
    let queues = worker.status().queues;
    let is_busy = |queue: &consign_worker::QueueStatus| {
        let held = queue.in_flight + queue.prefetched + queue.unrecorded;
        (held > 0 || queue.claiming) && queue.breaker != BreakerState::Open
    };
    if queues.iter().any(is_busy) {
        return Ok(false);
    }
    // Messages of expired leases are due too, and the first claim may not have been made yet.
    store.expire(LEASES_MAX).await?;
    let is_let_through =
        |queue: &&consign_worker::QueueStatus| !queue.paused && queue.breaker != BreakerState::Open;
    let mut is_due = false;
    for queue in queues.iter().filter(is_let_through) {
        let counted = store.queue_counts(&queue.queue).await?;
        is_due |= counted.is_some_and(|(_, counts)| counts.ready > 0);
    }
    // Between the claim and the count something may have been taken up.
    let is_idle = !worker.status().queues.iter().any(is_busy);
    Ok(is_idle && !is_due)
}
