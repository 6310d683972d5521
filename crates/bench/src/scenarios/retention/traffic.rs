//! A message every few milliseconds, enqueued, claimed and settled while something else goes on.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use consign_kernel::{QueueName, Store};
use hdrhistogram::Histogram;
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{MissedTickBehavior, interval},
};

use crate::{
    drain::Worker,
    subject::{StoreWorker, enqueue},
};

/// Slow enough that a disk that takes milliseconds to flush keeps up.
pub(super) const PACE: Duration = Duration::from_millis(25);

/// Traffic under way.
pub(super) struct Traffic {
    stop: watch::Sender<bool>,
    task: JoinHandle<Result<Histogram<u64>>>,
}

/// What the traffic saw, from when a message was due to be enqueued until it was claimed.
pub(super) struct Delays {
    pub(super) p99_ms: f64,
    pub(super) max_ms: f64,
}

impl Traffic {
    pub(super) fn start(store: Arc<dyn Store>, queue: QueueName) -> Self {
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(run(store, queue, stopped));
        Self { stop, task }
    }

    /// Ends it and returns what it saw.
    pub(super) async fn end(self) -> Result<Delays> {
        self.stop.send_replace(true);
        let times = self.task.await.context("the traffic panicked")??;
        let ms = |us: u64| us as f64 / 1e3;
        Ok(Delays {
            p99_ms: ms(times.value_at_quantile(0.99)),
            max_ms: ms(times.max()),
        })
    }
}

async fn run(
    store: Arc<dyn Store>,
    queue: QueueName,
    stopped: watch::Receiver<bool>,
) -> Result<Histogram<u64>> {
    let mut times = Histogram::new(3)?;
    let mut worker = StoreWorker::new(Arc::clone(&store), queue.clone());
    let mut ticks = interval(PACE);
    // A message that had to wait delays the next ones, as it would for a producer.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    while !*stopped.borrow() {
        let due = ticks.tick().await.into_std();
        enqueue(store.as_ref(), &queue, 1, 1).await?;
        let worked = worker.work(1).await?.context("a message was not claimed")?;
        let took = Instant::now() - due - worked.settle;
        times.record(u64::try_from(took.as_micros())?.max(1))?;
    }
    Ok(times)
}
