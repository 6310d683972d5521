//! `consign work --once`: what is due now, and no more.

use std::time::Duration;

use consign_kernel::{Result, Store};
use consign_worker::{BreakerState, WorkerHandle};
use tokio::time::{MissedTickBehavior, interval};

/// How often to look whether anything is left.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Ended leases to take back with each look.
const LEASES_MAX: u32 = 1_000;

/// Returns when nothing is due any more in the worker's lanes, or its sinks are left alone.
pub(super) async fn nothing_is_due(worker: &WorkerHandle, store: &dyn Store) {
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        match is_done(worker, store).await {
            Ok(true) => return,
            Ok(false) => {}
            // The worker says so too, and goes on when the database is back.
            Err(error) => tracing::debug!("cannot tell what is due: {error}"),
        }
    }
}

async fn is_done(worker: &WorkerHandle, store: &dyn Store) -> Result<bool> {
    let lanes = worker.status().lanes;
    let is_busy = |lane: &consign_worker::LaneStatus| {
        let held = lane.in_flight + lane.prefetched + lane.unrecorded;
        (held > 0 || lane.claiming) && lane.breaker != BreakerState::Open
    };
    if lanes.iter().any(is_busy) {
        return Ok(false);
    }
    // What silent workers held is due too, and the first claim may not have been made yet.
    store.expire(LEASES_MAX).await?;
    let is_let_through =
        |lane: &&consign_worker::LaneStatus| !lane.paused && lane.breaker != BreakerState::Open;
    let mut is_due = false;
    for lane in lanes.iter().filter(is_let_through) {
        let counted = store.lane_counts(&lane.lane).await?;
        is_due |= counted.is_some_and(|(_, counts)| counts.ready > 0);
    }
    // Between the claim and the count something may have been taken up.
    let is_idle = !worker.status().lanes.iter().any(is_busy);
    Ok(is_idle && !is_due)
}
