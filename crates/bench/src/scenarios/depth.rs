//! Whether a claim costs more when more is waiting.

use std::time::Duration;

use anyhow::{Context, Result};
use consign_kernel::{By, QueueName, QueuePolicy, prelude::*};

use super::{Answer, Plan};
use crate::{
    Bound, Figure, Measure, Unit,
    drain::{WorkStep, Worker},
    scratch::Scratch,
    subject::{StoreWorker, enqueue},
};

const BATCH: u32 = 100;
/// Filling goes faster in larger transactions; the batches are of 200 or less all the same.
const FILL_BATCH: u32 = 1_000;

pub(super) async fn run(plan: &Plan, scratch: &Scratch) -> Result<Answer> {
    let store = scratch.store().await?;
    let (deep, shallow): (QueueName, QueueName) = ("deep".parse()?, "shallow".parse()?);
    for queue in [&deep, &shallow] {
        let by = By::new("bench", "a queue to measure");
        store.put_queue(queue, &QueuePolicy::default(), &by).await?;
    }
    let counts = plan.counts;
    plan.say(format!(
        "filling a queue with {} messages",
        counts.depth_deep
    ));
    scratch.fill(&deep, counts.depth_deep, FILL_BATCH).await?;
    scratch.fill(&shallow, counts.depth_shallow, BATCH).await?;
    scratch.settle_down().await?;

    let mut deep_worker = StoreWorker::new(store.clone(), deep.clone());
    let mut shallow_worker = StoreWorker::new(store.clone(), shallow.clone());
    let (mut claims, mut both) = (Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        let (mut in_deep, mut in_shallow) = (Vec::new(), Vec::new());
        for _ in 0..counts.depth_claims {
            in_deep.push(step(&mut deep_worker).await?);
            in_shallow.push(step(&mut shallow_worker).await?);
            // Both stay as deep as they are.
            enqueue(store.as_ref(), &deep, BATCH, BATCH).await?;
            enqueue(store.as_ref(), &shallow, BATCH, BATCH).await?;
        }
        claims.push((
            middle(&in_deep, |step| step.claim),
            middle(&in_shallow, |step| step.claim),
        ));
        both.push((
            middle(&in_deep, WorkStep::took),
            middle(&in_shallow, WorkStep::took),
        ));
        plan.say(format!(
            "claim {:.2} ms and {:.2} ms",
            claims[claims.len() - 1].0,
            claims[claims.len() - 1].1
        ));
    }
    let unit = Unit::Milliseconds;
    let figures = vec![
        Figure::beside("claim of 100, deep", unit, "shallow", &claims).target(
            Measure::Ratio,
            Bound::AtMost,
            1.2,
        ),
        Figure::beside("claim and settle of 100, deep", unit, "shallow", &both),
    ];
    let notes = vec![format!(
        "deep: {} waiting in the queue; shallow: {}; medians of {} claims a round, taken in turns",
        counts.depth_deep, counts.depth_shallow, counts.depth_claims
    )];
    Ok((figures, notes))
}

async fn step(worker: &mut StoreWorker) -> Result<WorkStep> {
    worker.work(BATCH).await?.context("a queue ran empty")
}

/// The median in milliseconds.
fn middle(steps: &[WorkStep], part: impl Fn(&WorkStep) -> Duration) -> f64 {
    let mut times: Vec<Duration> = steps.iter().map(part).collect();
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e3
}
