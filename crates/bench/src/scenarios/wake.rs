//! What wake-ups cost producers, and how late they come.

mod producers;
mod timers;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Result;
use consign_kernel::{By, QueueName, QueuePolicy, prelude::*};
use consign_postgres::{PostgresOptions, PostgresStore};

use self::{
    producers::{PRODUCERS, Setting},
    timers::TimedWorker,
};
use super::{
    Answer, Plan,
    pickup::{Times, TimingWorker, rest, sample},
};
use crate::{Bound, Figure, Measure, Unit, scratch::Scratch, subject::queue};

/// Longest rest before a message, from none: the worker is looking, registering, or asleep.
const REST_MAX: Duration = Duration::from_millis(40);
/// From a commit to the start of its delivery, the longest.
const LATE_MAX_MS: f64 = 50.0;
/// From a due time to the start of the delivery.
const TIMER_MAX_MS: f64 = 20.0;

pub(super) async fn run(plan: &Plan, scratch: &Scratch) -> Result<Answer> {
    let quiet: QueueName = "quiet".parse()?;
    let store = PostgresStore::connect(&PostgresOptions::new(scratch.url())).await?;
    let by = By::new("bench", "a queue to measure");
    let policy = QueuePolicy {
        notify: false,
        ..QueuePolicy::default()
    };
    store.put_queue(&quiet, &policy, &by).await?;
    let mut figures = Vec::new();
    for setting in Setting::ALL {
        figures.push(produced(plan, scratch, setting).await?);
    }
    plan.say("pickup at any moment");
    figures.extend(picked_up(plan, scratch).await?);
    plan.say("timers");
    figures.extend(timed(plan, scratch).await?);
    let notes = vec![
        format!(
            "{PRODUCERS} connections enqueue one message per transaction for {:.1} s a round, in turns with the same on a queue with \
             `notify = false` and in the same company; NOTIFY in every transaction, and no trigger at all, are for comparison",
            plan.counts.wake.as_secs_f64()
        ),
        format!(
            "at any moment: {} messages, each after a rest of 0 to {} ms, from just before COMMIT is sent to the sink's call",
            plan.counts.wakes,
            REST_MAX.as_millis()
        ),
        format!(
            "timers: {} of each, from the due time to the sink's call; in a group: from the end of a delivery to the next of its group",
            plan.counts.timers
        ),
    ];
    Ok((figures, notes))
}

/// Enqueues with wake-ups, beside the same without.
async fn produced(plan: &Plan, scratch: &Scratch, setting: Setting) -> Result<Figure> {
    let mut rounds = Vec::new();
    for round in 0..plan.rounds {
        let mut rates = [0.0; 2];
        // Each goes first in every other round.
        for turn in [round % 2, 1 - round % 2] {
            scratch.settle_down().await?;
            rates[turn as usize] = producers::rate(plan, scratch, setting, turn == 0).await?;
        }
        rounds.push((rates[0], rates[1]));
    }
    let unit = Unit::MessagesPerSecond;
    let figure = Figure::beside(setting.name(), unit, "notify = false", &rounds);
    plan.say(format!("{}: {:.0}/s", setting.name(), figure.value));
    Ok(if setting.is_judged() {
        figure.target(Measure::Ratio, Bound::AtLeast, 0.9)
    } else {
        figure
    })
}

async fn picked_up(plan: &Plan, scratch: &Scratch) -> Result<Vec<Figure>> {
    let store = Arc::new(PostgresStore::connect(&PostgresOptions::new(scratch.url())).await?);
    scratch.empty(&queue()).await?;
    let mut timed = TimingWorker::start(store, &queue(), true);
    let mut producer = scratch.connect().await?;
    let mut times = Times::default();
    for count in 0..plan.counts.wakes {
        let odd = (count * 7919) % 1000;
        rest(REST_MAX * (odd + 1) / 1500).await;
        times.add(sample(&mut producer, &mut timed, &queue()).await?);
    }
    timed.end().await;
    let mut figures = times.figures("at any moment");
    let longest = Figure::alone(
        "at any moment, longest",
        Unit::Milliseconds,
        &[times.ms(100)],
    );
    figures.push(longest.target(Measure::Value, Bound::AtMost, LATE_MAX_MS));
    Ok(figures)
}

async fn timed(plan: &Plan, scratch: &Scratch) -> Result<Vec<Figure>> {
    let started = Instant::now();
    let worked = TimedWorker::start(scratch).await?;
    let mut figures = Vec::new();
    for (name, times) in [
        ("delayed", worked.delayed(plan.counts.timers).await?),
        ("retried", worked.retried(plan.counts.timers).await?),
        (
            "next of a group",
            worked.next_of_group(plan.counts.timers).await?,
        ),
    ] {
        let mut both = times.figures(name);
        let last = both.pop();
        figures.extend(both);
        figures.extend(last.map(|p99| p99.target(Measure::Value, Bound::AtMost, TIMER_MAX_MS)));
    }
    worked.end().await;
    plan.say(format!(
        "timers took {:.0} s",
        started.elapsed().as_secs_f64()
    ));
    Ok(figures)
}
