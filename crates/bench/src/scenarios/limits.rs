//! Limits that several processes keep together: how many deliveries their receiver sees in a second and at once.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use consign_kernel::QueueName;

use super::{Answer, Plan};
use crate::{
    Bound, Figure, Measure, Unit,
    process::{Program, config},
    receiver::Receiver,
    scratch::Scratch,
};

const PROCESSES: u32 = 4;
const AT_ONCE: u32 = 8;
const SECOND: Duration = Duration::from_secs(1);

/// Limits of a queue, and a receiver that makes one of them bind.
struct Case {
    name: &'static str,
    queue: &'static str,
    rate: u32,
    /// How long the receiver takes over a delivery.
    delivery: Duration,
    /// How many deliveries a second the limits allow.
    allowed: f64,
    /// How many deliveries begin together at first: they show no rate.
    burst: u32,
    /// Which part of the messages it delivers, so that both cases take about as long.
    share: u32,
}

const CASES: &[Case] = &[
    // Five deliveries are under way on average: the rate binds.
    Case {
        name: "rate binds",
        queue: "rate",
        rate: 50,
        delivery: Duration::from_millis(100),
        allowed: 50.0,
        burst: 1,
        share: 1,
    },
    // Eight deliveries at a time are 20 a second: the concurrency binds.
    Case {
        name: "concurrency binds",
        queue: "concurrency",
        rate: 200,
        delivery: Duration::from_millis(400),
        allowed: AT_ONCE as f64 / 0.4,
        burst: AT_ONCE,
        share: 2,
    },
];

pub(super) async fn run(plan: &Plan, scratch: &Scratch) -> Result<Answer> {
    let program = plan.program()?;
    let (mut figures, mut notes) = (Vec::new(), Vec::new());
    for case in CASES {
        plan.say(case.name);
        let messages = plan.counts.limited / case.share;
        figures.extend(case.measure(&program, scratch, messages).await?);
        notes.push(format!(
            "{}: {PROCESSES} processes, {messages} messages, {} a second and {AT_ONCE} at a time in all processes; the far side takes {} ms",
            case.name,
            case.rate,
            case.delivery.as_millis()
        ));
    }
    Ok((figures, notes))
}

impl Case {
    async fn measure(
        &self,
        program: &Program,
        scratch: &Scratch,
        messages: u32,
    ) -> Result<Vec<Figure>> {
        let receiver = Receiver::start(self.delivery).await?;
        let limits = format!(
            "total_rate_per_second = {}\ntotal_concurrency = {AT_ONCE}",
            self.rate
        );
        let config = config(scratch.url(), &receiver.queue(self.queue, &limits));
        let mut workers = Vec::new();
        for nth in 0..PROCESSES {
            let name = format!("worker-{nth}");
            workers.push(program.start("work", &name, &config).await?);
        }
        let queue: QueueName = self.queue.parse()?;
        scratch.fill_at_once(&queue, messages, 100).await?;
        let fair = Duration::from_secs_f64(f64::from(messages) / self.allowed);
        receiver
            .wait_for(messages.into(), 3 * fair + 10 * SECOND)
            .await?;
        for worker in workers {
            worker.terminate().await?;
        }
        self.figures(&receiver)
    }

    fn figures(&self, receiver: &Receiver) -> Result<Vec<Figure>> {
        let (times, most_at_once) = receiver.begun();
        let first = times.first().context("nothing was delivered")?;
        let last = times.last().context("nothing was delivered")?;
        let counted = times.len().saturating_sub(self.burst as usize);
        let used = counted as f64 / (*last - *first).as_secs_f64();
        let name = |what: &str| format!("{}: {what}", self.name);
        let (count, second) = (Unit::Count, most_in_a_second(&times));
        Ok(vec![
            Figure::alone(name("most in any second"), count, &[second]).target(
                Measure::Value,
                Bound::AtMost,
                self.rate.into(),
            ),
            Figure::alone(name("most at once"), count, &[most_at_once as f64]).target(
                Measure::Value,
                Bound::AtMost,
                AT_ONCE.into(),
            ),
            Figure::beside(
                name("deliveries"),
                Unit::MessagesPerSecond,
                "the limit",
                &[(used, self.allowed)],
            )
            .target(Measure::Ratio, Bound::AtLeast, 0.95),
        ])
    }
}

fn most_in_a_second(times: &[Instant]) -> f64 {
    let within = |(index, start): (usize, &Instant)| {
        let later = times[index..].iter();
        later.take_while(|at| **at - *start < SECOND).count()
    };
    times.iter().enumerate().map(within).max().unwrap_or(0) as f64
}
