//! A worker: one task per lane, and one that waits for them all.

use std::{sync::Arc, time::Duration};

use consign_kernel::Store;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tracing::error;

use crate::{
    LaneWork, Summary, WorkerHandle, WorkerOptions,
    attempt::panic_text,
    breaker::SharedBreaker,
    budget::Budget,
    context::Context,
    handle::{Order, Shared},
    lane::LaneLoop,
};

/// How long a lane rests after a defect ended it.
const DEFECT_REST: Duration = Duration::from_secs(1);

/// Works on lanes until told to stop.
#[derive(Debug)]
pub struct Worker;

impl Worker {
    /// Starts to work on these lanes. Needs a Tokio runtime.
    ///
    /// Lanes work side by side, each with deliveries, leases and a rate of its own; what they
    /// share is the store, and the breaker of a sink they have in common.
    pub fn start(
        store: Arc<dyn Store>,
        lanes: Vec<LaneWork>,
        options: WorkerOptions,
    ) -> WorkerHandle {
        let options = Arc::new(options.bounded());
        let budget = Budget::new(options.claimed_max_bytes);
        let lanes: Vec<Arc<Context>> = breakers(&lanes)
            .into_iter()
            .zip(lanes)
            .map(|(breaker, work)| {
                let (options, budget) = (Arc::clone(&options), Arc::clone(&budget));
                let context = Context::new(Arc::clone(&store), work, breaker, options, budget);
                Arc::new(context)
            })
            .collect();
        let shared = Arc::new(Shared {
            owner: options.owner.clone(),
            orders: watch::Sender::default(),
            ended: watch::Sender::default(),
            lanes,
        });
        tokio::spawn(run_all(Arc::clone(&shared)));
        WorkerHandle { shared }
    }
}

/// A breaker for each lane: the same one for lanes of the same sink or destination.
fn breakers(lanes: &[LaneWork]) -> Vec<Arc<SharedBreaker>> {
    let mut breakers: Vec<Arc<SharedBreaker>> = Vec::new();
    for (index, work) in lanes.iter().enumerate() {
        let twin = lanes[..index].iter().position(|other| {
            Arc::ptr_eq(&other.sink, &work.sink)
                || work.same_destination_as.as_ref() == Some(&other.lane)
        });
        breakers.push(match twin {
            Some(twin) => Arc::clone(&breakers[twin]),
            None => Arc::new(SharedBreaker::new(work.breaker)),
        });
    }
    breakers
}

async fn run_all(shared: Arc<Shared>) {
    let mut lanes = JoinSet::new();
    for context in &shared.lanes {
        lanes.spawn(supervise(Arc::clone(context), shared.orders.subscribe()));
    }
    let mut summary = Summary::default();
    for lane in lanes.join_all().await {
        summary.add(lane);
    }
    // A worker without lanes has nothing to do, but ends only when told to.
    let mut orders = shared.orders.subscribe();
    drop(orders.wait_for(|order| *order != Order::Work).await);
    shared.ended.send_replace(Some(summary));
}

/// Runs a lane to its end. A defect in the loop costs its leases, which run out, not the worker.
async fn supervise(context: Arc<Context>, mut orders: watch::Receiver<Order>) -> Summary {
    loop {
        let lane = LaneLoop::new(Arc::clone(&context), orders.clone());
        let gone = match tokio::spawn(lane.run()).await {
            Ok(summary) => return summary,
            Err(gone) => gone,
        };
        // The runtime is going down.
        let Ok(panic) = gone.try_into_panic() else {
            return Summary::default();
        };
        let (lane, text) = (&context.lane, panic_text(panic.as_ref()));
        error!(%lane, "lane {lane}: its loop panicked ({text}); it starts again");
        // It may have been the one that probed; a probe too many does no harm.
        context.breaker.give_probe_back();
        tokio::select! {
            () = sleep_until(Instant::now() + DEFECT_REST) => {}
            ended = orders.wait_for(|order| *order != Order::Work) => {
                drop(ended);
                return Summary::default();
            }
        }
    }
}
