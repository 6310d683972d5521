//! A worker whose sink notes when it was called.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result};
use async_trait::async_trait;
use consign_kernel::{QueueName, Store};
use consign_worker::{Delivery, QueueWork, Sink, Verdict, Worker, WorkerHandle, WorkerOptions};
use tokio::{
    sync::mpsc::{self, UnboundedReceiver, UnboundedSender},
    time::{Instant, interval_at, timeout},
};

use crate::{Figure, Unit};

const PATIENCE: Duration = Duration::from_secs(30);

/// A worker in this process, so that one clock measures both ends.
pub(in crate::scenarios) struct TimingWorker {
    worker: WorkerHandle,
    starts: UnboundedReceiver<Instant>,
}

impl TimingWorker {
    pub(in crate::scenarios) fn start(
        store: Arc<dyn Store>,
        queue: &QueueName,
        notified: bool,
    ) -> Self {
        let (sender, starts) = mpsc::unbounded_channel();
        let options = WorkerOptions {
            notified,
            ..WorkerOptions::new("bench")
        };
        let work = QueueWork::new(queue.clone(), Arc::new(TimingSink(sender)));
        let worker = Worker::start(store, vec![work], options);
        Self { worker, starts }
    }

    /// How long after `moment` the next delivery started.
    pub(in crate::scenarios) async fn since(&mut self, moment: Instant) -> Result<Duration> {
        let start = timeout(PATIENCE, self.starts.recv()).await;
        let start = start.context("nothing was delivered")?;
        Ok(start.context("the worker is gone")?.duration_since(moment))
    }

    pub(in crate::scenarios) async fn end(self) {
        self.worker.drain();
        self.worker.finished().await;
    }
}

#[derive(Debug)]
struct TimingSink(UnboundedSender<Instant>);

#[async_trait]
impl Sink for TimingSink {
    fn kind(&self) -> &'static str {
        "noting"
    }

    fn destination(&self) -> &str {
        "the benchmark"
    }

    async fn deliver(&self, _delivery: &Delivery) -> Verdict {
        // The receiver is closed once the last sample is taken.
        self.0.send(Instant::now()).unwrap_or_default();
        Verdict::delivered()
    }
}

/// Samples and their percentiles.
#[derive(Default)]
pub(in crate::scenarios) struct Times(Vec<Duration>);

impl Times {
    pub(in crate::scenarios) fn add(&mut self, time: Duration) {
        self.0.push(time);
        self.0.sort_unstable();
    }

    /// The smallest sample that `percentile` of all do not exceed, in milliseconds.
    pub(in crate::scenarios) fn ms(&self, percentile: usize) -> f64 {
        let rank = (self.0.len() * percentile).div_ceil(100).max(1);
        let time = self.0.get(rank - 1).copied().unwrap_or_default();
        time.as_secs_f64() * 1e3
    }

    pub(in crate::scenarios) fn figures(&self, name: &str) -> Vec<Figure> {
        let figure = |percentile| {
            let name = format!("{name}, p{percentile}");
            Figure::alone(name, Unit::Milliseconds, &[self.ms(percentile)])
        };
        vec![figure(50), figure(99)]
    }
}

/// Rests for `time` and up to half as long again, so that no rhythm is met.
pub(in crate::scenarios) async fn rest(time: Duration) {
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let odd = clock.map_or(0, |now| now.subsec_micros() % 1_000);
    let time = time + time / 2 * odd / 1_000;
    interval_at(Instant::now() + time, time).tick().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_sample() {
        let mut times = Times::default();
        for ms in (1..=200).rev() {
            times.add(Duration::from_millis(ms));
        }
        assert_eq!(times.ms(50), 100.0);
        assert_eq!(times.ms(99), 198.0);
        let mut one = Times::default();
        one.add(Duration::from_millis(7));
        assert_eq!(one.ms(99), 7.0);
    }
}
