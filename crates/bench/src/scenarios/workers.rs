//! Two workers instead of one.

use anyhow::Result;

use super::{Answer, Plan};
use crate::{
    Bound, Figure, Measure, Unit,
    drain::rate_together,
    scratch::Scratch,
    subject::{StoreWorker, queue},
};

const BATCH: u32 = 100;

pub(super) async fn run(plan: &Plan, scratch: &Scratch) -> Result<Answer> {
    let (mut own, mut control) = (Vec::new(), Vec::new());
    for round in 0..plan.rounds {
        let first = 1 + round % 2;
        let mut rates = [0.0; 2];
        let mut control_rates = [0.0; 2];
        for workers in [first, 3 - first] {
            let at = workers as usize - 1;
            rates[at] = consign(plan, scratch, workers).await?;
            control_rates[at] = usual(plan, scratch, workers).await?;
        }
        plan.say(format!(
            "two {:.0}/s, one {:.0}/s; control {:.0}/s and {:.0}/s",
            rates[1], rates[0], control_rates[1], control_rates[0]
        ));
        own.push((rates[1], rates[0]));
        control.push((control_rates[1], control_rates[0]));
    }
    let unit = Unit::MessagesPerSecond;
    let figures = vec![
        Figure::beside("two workers", unit, "one worker", &own).target(
            Measure::Ratio,
            Bound::AtLeast,
            1.4,
        ),
        Figure::beside("the control with two", unit, "one worker", &control),
    ];
    let notes = vec![format!(
        "enqueued and claimed by {BATCH}; a connection and a task for each worker; database and workers share {} cores",
        std::thread::available_parallelism().map_or(1, usize::from)
    )];
    Ok((figures, notes))
}

async fn consign(plan: &Plan, scratch: &Scratch, count: u32) -> Result<f64> {
    scratch.fill(&queue(), plan.counts.workers, BATCH).await?;
    scratch.settle_down().await?;
    let mut workers = Vec::new();
    for _ in 0..count {
        workers.push(StoreWorker::new(scratch.store().await?, queue()));
    }
    rate_together(workers, plan.counts.workers, BATCH).await
}

async fn usual(plan: &Plan, scratch: &Scratch, count: u32) -> Result<f64> {
    scratch.fill_control(plan.counts.workers, BATCH).await?;
    scratch.settle_down().await?;
    let mut workers = Vec::new();
    for _ in 0..count {
        workers.push(scratch.control().await?);
    }
    rate_together(workers, plan.counts.workers, BATCH).await
}
