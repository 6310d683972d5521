//! Working a queue empty, against the clock.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

/// What one claim and its settle did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkStep {
    pub(crate) messages: u32,
    pub(crate) claim: Duration,
    pub(crate) settle: Duration,
}

impl WorkStep {
    pub(crate) fn took(&self) -> Duration {
        self.claim + self.settle
    }
}

/// One worker of a queue: it claims, does nothing with the messages, and settles.
pub(crate) trait Worker: Send + 'static {
    /// Claims up to `limit` messages and reports all of them delivered. `None`: nothing is due.
    fn work(&mut self, limit: u32) -> impl Future<Output = Result<Option<WorkStep>>> + Send;
}

/// Messages per second while one worker drains `messages` by `limit`.
pub(crate) async fn rate(worker: &mut impl Worker, messages: u32, limit: u32) -> Result<f64> {
    let started = Instant::now();
    let mut drained = 0;
    while let Some(worked) = worker.work(limit).await? {
        drained += worked.messages;
        if drained >= messages {
            break;
        }
    }
    let took = started.elapsed();
    ensure!(
        drained == messages,
        "drained {drained} messages where {messages} were prepared"
    );
    Ok(f64::from(messages) / took.as_secs_f64())
}

/// Messages per second while several workers drain `messages` by `limit` together.
///
/// Each works until nothing is left, so every round must start with exactly `messages` waiting.
pub(crate) async fn rate_together<W: Worker>(
    workers: Vec<W>,
    messages: u32,
    limit: u32,
) -> Result<f64> {
    let started = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for mut worker in workers {
        tasks.spawn(async move {
            let mut drained = 0;
            // The look that finds nothing is no part of the drain.
            let mut last = Instant::now();
            while let Some(worked) = worker.work(limit).await? {
                drained += worked.messages;
                last = Instant::now();
            }
            anyhow::Ok((drained, last))
        });
    }
    let (mut drained, mut ended) = (0, started);
    for outcome in tasks.join_all().await {
        let (count, last) = outcome?;
        drained += count;
        ended = ended.max(last);
    }
    ensure!(
        drained == messages,
        "drained {drained} messages where {messages} were prepared"
    );
    Ok(f64::from(messages) / ended.duration_since(started).as_secs_f64())
}

/// Every step of a drain by `limit`, until `messages` are done or `time_max` has passed.
pub(crate) async fn steps(
    worker: &mut impl Worker,
    messages: u32,
    limit: u32,
    time_max: Duration,
) -> Result<Vec<WorkStep>> {
    let started = Instant::now();
    let mut steps = Vec::new();
    let mut drained = 0;
    while drained < messages
        && started.elapsed() < time_max
        && let Some(worked) = worker.work(limit).await?
    {
        drained += worked.messages;
        steps.push(worked);
    }
    Ok(steps)
}

/// Messages per second over some steps.
pub(crate) fn rate_of(steps: &[WorkStep]) -> f64 {
    let messages: u32 = steps.iter().map(|step| step.messages).sum();
    let took: Duration = steps.iter().map(WorkStep::took).sum();
    f64::from(messages) / took.as_secs_f64()
}
