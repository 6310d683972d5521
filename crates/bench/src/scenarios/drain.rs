//! Claim and settle with one worker, beside the control.

use anyhow::Result;

use super::{Answer, Plan};
use crate::{
    Bound, Figure, Measure, Unit,
    backend::Backend,
    drain::{self, Worker},
    scratch::Scratch,
    subject::{StoreWorker, enqueue, queue},
};

struct Case {
    name: &'static str,
    /// Messages per enqueueing transaction.
    enqueued: u32,
    /// Messages per claim.
    claimed: u32,
    ratio_min: f64,
}

const CASES: &[Case] = &[
    Case {
        name: "enqueued by 500, claimed by 500",
        enqueued: 500,
        claimed: 500,
        ratio_min: 4.0,
    },
    Case {
        name: "enqueued by 100, claimed by 100",
        enqueued: 100,
        claimed: 100,
        ratio_min: 3.0,
    },
    Case {
        name: "enqueued one by one, claimed by 100",
        enqueued: 1,
        claimed: 100,
        ratio_min: 1.5,
    },
];

/// A worker and the server processes that work for it.
struct Side<W> {
    worker: W,
    backend: Option<Backend>,
}

/// What one drain showed.
#[derive(Clone, Copy)]
struct DrainFigures {
    rate: f64,
    /// Microseconds of the server's processor time per message.
    cpu_us: Option<f64>,
}

pub(super) async fn run(plan: &Plan, scratch: &Scratch) -> Result<Answer> {
    let store = scratch.store().await?;
    enqueue(store.as_ref(), &queue(), 1, 1).await?;
    let mut worker = StoreWorker::new(store, queue());
    // The first message opens a connection for each use: claims have one of their own, settles another.
    worker.work(1).await?;
    let backend = Backend::of_store(&mut scratch.connect().await?).await?;
    let mut subject = Side { worker, backend };
    let mut worker = scratch.control().await?;
    let backend = worker.backend().await?;
    let mut control = Side { worker, backend };

    let mut figures = Vec::new();
    for case in CASES {
        let mut rounds = Vec::new();
        for round in 0..plan.rounds {
            prepare(scratch, plan.counts.drain, case.enqueued).await?;
            // Each goes first in every other round.
            let (messages, limit) = (plan.counts.drain, case.claimed);
            let pair = if round.is_multiple_of(2) {
                let own = subject.drain(messages, limit).await?;
                (own, control.drain(messages, limit).await?)
            } else {
                let other = control.drain(messages, limit).await?;
                (subject.drain(messages, limit).await?, other)
            };
            let rates = (pair.0.rate, pair.1.rate);
            plan.say(format!(
                "{}: {:.0}/s, control {:.0}/s",
                case.name, rates.0, rates.1
            ));
            rounds.push(pair);
        }
        figures.extend(figures_of(case, &rounds));
    }
    let notes = vec![format!(
        "one worker, one connection; each round drains {} messages of either, prepared alike, vacuumed and checkpointed",
        plan.counts.drain
    )];
    Ok((figures, notes))
}

fn figures_of(case: &Case, rounds: &[(DrainFigures, DrainFigures)]) -> Vec<Figure> {
    let rates: Vec<(f64, f64)> = rounds
        .iter()
        .map(|(own, other)| (own.rate, other.rate))
        .collect();
    let rate = Figure::beside(case.name, Unit::MessagesPerSecond, "control", &rates);
    let mut figures = vec![rate.target(Measure::Ratio, Bound::AtLeast, case.ratio_min)];
    let cpu = rounds
        .iter()
        .map(|(own, other)| Some((own.cpu_us?, other.cpu_us?)));
    if let Some(cpu) = cpu.collect::<Option<Vec<_>>>() {
        let unit = Unit::MicrosecondsPerMessage;
        figures.push(Figure::beside(
            "  server's processor time",
            unit,
            "control",
            &cpu,
        ));
    }
    figures
}

/// Fills both queues alike.
async fn prepare(scratch: &Scratch, messages: u32, batch: u32) -> Result<()> {
    scratch.fill(&queue(), messages, batch).await?;
    scratch.fill_control(messages, batch).await?;
    scratch.settle_down().await
}

impl<W: Worker> Side<W> {
    async fn drain(&mut self, messages: u32, limit: u32) -> Result<DrainFigures> {
        let cpu = |side: &Self| side.backend.as_ref().and_then(Backend::cpu);
        let before = cpu(self);
        let rate = drain::rate(&mut self.worker, messages, limit).await?;
        let used = before.and_then(|before| cpu(self)?.checked_sub(before));
        let cpu_us = used.map(|used| used.as_secs_f64() * 1e6 / f64::from(messages));
        Ok(DrainFigures { rate, cpu_us })
    }
}
