//! Limits that several processes keep together: how many deliveries their receiver sees in a second and at once.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::{Answer, Plan};
use crate::{
    Bound, Figure, Measure, Unit, process::config, receiver::Receiver, scratch::Scratch,
    subject::queue,
};

const PROCESSES: u32 = 4;
const RATE: u32 = 50;
const AT_ONCE: u32 = 8;
/// How long the far side takes: five deliveries are under way on average.
const DELIVERY: Duration = Duration::from_millis(100);
const SECOND: Duration = Duration::from_secs(1);

pub(super) async fn run(plan: &Plan, scratch: &Scratch) -> Result<Answer> {
    let messages = plan.counts.limited;
    let receiver = Receiver::start(DELIVERY).await?;
    let limits = format!("total_rate_per_second = {RATE}\ntotal_concurrency = {AT_ONCE}");
    let config = config(scratch.url(), &receiver.queue("default", &limits));
    let program = plan.program()?;
    let mut workers = Vec::new();
    for nth in 0..PROCESSES {
        let name = format!("worker-{nth}");
        workers.push(program.start("work", &name, &config).await?);
    }
    scratch.fill_at_once(&queue(), messages, 100).await?;
    let patience = SECOND * (3 * messages / RATE + 10);
    receiver.wait_for(messages.into(), patience).await?;
    for worker in workers {
        worker.terminate().await?;
    }
    let (times, most_at_once) = receiver.begun();
    let first = times.first().context("nothing was delivered")?;
    let last = times.last().context("nothing was delivered")?;
    let used = (times.len() - 1) as f64 / (*last - *first).as_secs_f64();
    let figures = vec![
        Figure::alone(
            "most deliveries in any second",
            Unit::Count,
            &[most_in_a_second(&times)],
        )
        .target(Measure::Value, Bound::AtMost, RATE.into()),
        Figure::alone(
            "most deliveries at once",
            Unit::Count,
            &[most_at_once as f64],
        )
        .target(Measure::Value, Bound::AtMost, AT_ONCE.into()),
        Figure::beside(
            "deliveries",
            Unit::MessagesPerSecond,
            "the limit",
            &[(used, RATE.into())],
        )
        .target(Measure::Ratio, Bound::AtLeast, 0.95),
    ];
    let notes = vec![format!(
        "{PROCESSES} processes, {messages} messages, {RATE} a second and {AT_ONCE} at a time in all processes; the far side takes {} ms",
        DELIVERY.as_millis()
    )];
    Ok((figures, notes))
}

fn most_in_a_second(times: &[Instant]) -> f64 {
    let within = |(index, start): (usize, &Instant)| {
        let later = times[index..].iter();
        later.take_while(|at| **at - *start < SECOND).count()
    };
    times.iter().enumerate().map(within).max().unwrap_or(0) as f64
}
