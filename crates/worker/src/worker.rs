//! A worker: one task per queue, and one that waits for them all.

use std::{sync::Arc, time::Duration};

use consign_kernel::Store;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tracing::error;

use crate::{
    QueueWork, Summary, WorkerHandle, WorkerOptions,
    attempt::panic_text,
    breaker::SharedBreaker,
    budget::Budget,
    context::Context,
    handle::{Order, WorkerState},
    queue::QueueLoop,
};

/// How long a queue rests after a defect ended it.
const DEFECT_REST: Duration = Duration::from_secs(1);

/// Works on queues until it is stopped.
#[derive(Debug)]
pub struct Worker;

impl Worker {
    /// Starts to work on these queues. Needs a Tokio runtime.
    ///
    /// Queues work side by side, each with deliveries, leases and a rate of its own; what they
    /// share is the store, and the breaker of a sink they have in common.
    pub fn start(
        store: Arc<dyn Store>,
        queues: Vec<QueueWork>,
        options: WorkerOptions,
    ) -> WorkerHandle {
        let options = Arc::new(options.bounded());
        let budget = Budget::new(options.claimed_max_bytes);
        let queues: Vec<Arc<Context>> = breakers(&queues)
            .into_iter()
            .zip(queues)
            .map(|(breaker, work)| {
                let (options, budget) = (Arc::clone(&options), Arc::clone(&budget));
                let context = Context::new(Arc::clone(&store), work, breaker, options, budget);
                Arc::new(context)
            })
            .collect();
        let shared = Arc::new(WorkerState {
            owner: options.owner.clone(),
            orders: watch::Sender::default(),
            ended: watch::Sender::default(),
            queues,
        });
        tokio::spawn(run_all(Arc::clone(&shared)));
        WorkerHandle { shared }
    }
}

/// A breaker for each queue: the same one for queues of the same sink or destination.
fn breakers(queues: &[QueueWork]) -> Vec<Arc<SharedBreaker>> {
    let mut breakers: Vec<Arc<SharedBreaker>> = Vec::new();
    for (index, work) in queues.iter().enumerate() {
        let twin = queues[..index].iter().position(|other| {
            Arc::ptr_eq(&other.sink, &work.sink)
                || work.same_destination_as.as_ref() == Some(&other.queue)
        });
        breakers.push(match twin {
            Some(twin) => Arc::clone(&breakers[twin]),
            None => Arc::new(SharedBreaker::new(work.breaker)),
        });
    }
    breakers
}

async fn run_all(shared: Arc<WorkerState>) {
    let mut queues = JoinSet::new();
    for context in &shared.queues {
        queues.spawn(supervise(Arc::clone(context), shared.orders.subscribe()));
    }
    let mut summary = Summary::default();
    for queue in queues.join_all().await {
        summary.add(queue);
    }
    // A worker without queues has nothing to do, but ends only when it is stopped.
    let mut orders = shared.orders.subscribe();
    drop(orders.wait_for(|order| *order != Order::Work).await);
    shared.ended.send_replace(Some(summary));
}

/// Runs a queue to its end. A defect in the loop costs its leases, which run out, not the worker.
async fn supervise(context: Arc<Context>, mut orders: watch::Receiver<Order>) -> Summary {
    loop {
        let queue = QueueLoop::new(Arc::clone(&context), orders.clone());
        let gone = match tokio::spawn(queue.run()).await {
            Ok(summary) => return summary,
            Err(gone) => gone,
        };
        // The runtime is going down.
        let Ok(panic) = gone.try_into_panic() else {
            return Summary::default();
        };
        let (queue, text) = (&context.queue, panic_text(panic.as_ref()));
        error!(%queue, "queue {queue}: its loop panicked ({text}); it starts again");
        // It may have been the one that probed; a probe too many does no harm.
        context.breaker.return_probe();
        tokio::select! {
            () = sleep_until(Instant::now() + DEFECT_REST) => {}
            ended = orders.wait_for(|order| *order != Order::Work) => {
                drop(ended);
                return Summary::default();
            }
        }
    }
}
