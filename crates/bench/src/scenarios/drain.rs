//! Claim and settle with one worker, beside the control.

use anyhow::Result;

use super::{Answer, Plan};
use crate::{
    Bound, Figure, Measure, Unit,
    control::ControlWorker,
    drain,
    scratch::Scratch,
    subject::{StoreWorker, lane},
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

pub(super) async fn run(plan: &Plan<'_>, scratch: &Scratch) -> Result<Answer> {
    let mut subject = StoreWorker::new(scratch.store().await?, lane());
    let mut control = scratch.control().await?;
    let mut figures = Vec::new();
    for case in CASES {
        let mut rounds = Vec::new();
        for round in 0..plan.rounds {
            prepare(scratch, plan.counts.drain, case.enqueued).await?;
            let pair = pair(
                &mut subject,
                &mut control,
                plan.counts.drain,
                case.claimed,
                round,
            );
            let pair = pair.await?;
            plan.say(format!(
                "{}: {:.0}/s, control {:.0}/s",
                case.name, pair.0, pair.1
            ));
            rounds.push(pair);
        }
        let figure = Figure::beside(case.name, Unit::MessagesPerSecond, "control", &rounds);
        figures.push(figure.target(Measure::Ratio, Bound::AtLeast, case.ratio_min));
    }
    let notes = vec![format!(
        "one worker, one connection; each round drains {} messages of either, prepared alike, vacuumed and checkpointed",
        plan.counts.drain
    )];
    Ok((figures, notes))
}

/// Fills both queues alike.
async fn prepare(scratch: &Scratch, messages: u32, batch: u32) -> Result<()> {
    scratch.fill(&lane(), messages, batch).await?;
    scratch.fill_control(messages, batch).await?;
    scratch.settle_down().await
}

/// Drains both, each going first in every other round.
async fn pair(
    subject: &mut StoreWorker,
    control: &mut ControlWorker,
    messages: u32,
    limit: u32,
    round: u32,
) -> Result<(f64, f64)> {
    if round.is_multiple_of(2) {
        let own = drain::rate(subject, messages, limit).await?;
        let other = drain::rate(control, messages, limit).await?;
        Ok((own, other))
    } else {
        let other = drain::rate(control, messages, limit).await?;
        let own = drain::rate(subject, messages, limit).await?;
        Ok((own, other))
    }
}
