//! A drain while a session holds a snapshot open, so that vacuum can remove nothing.

use std::time::Duration;

use anyhow::Result;
use sqlx::{Connection, PgConnection};

use super::{Answer, Plan};
use crate::{
    Bound, Figure, Measure, Unit,
    drain::{WorkStep, Worker, rate_of, steps},
    scratch::Scratch,
    subject::{StoreWorker, queue},
};

const CLAIM: u32 = 100;
/// Preparing and draining this many takes long; more rounds than this add nothing.
const ROUNDS_MAX: u32 = 3;
/// No limit for consign: it must finish.
const NO_LIMIT: Duration = Duration::from_secs(3600);

pub(super) async fn run(plan: &Plan, scratch: &Scratch) -> Result<Answer> {
    let messages = plan.counts.snapshot;
    let control_max = plan.counts.snapshot_control_max;
    let (mut own, mut control, mut control_done) = (Vec::new(), Vec::new(), u32::MAX);
    for _ in 0..plan.rounds.min(ROUNDS_MAX) {
        scratch.fill(&queue(), messages, 1).await?;
        let mut worker = StoreWorker::new(scratch.store().await?, queue());
        let done = under_snapshot(scratch, &mut worker, messages, NO_LIMIT).await?;
        own.push(last_and_first_tenth(&done));

        scratch.fill_control(messages, 1).await?;
        let mut worker = scratch.control().await?;
        let done = under_snapshot(scratch, &mut worker, messages, control_max).await?;
        control_done = control_done.min(done.iter().map(|step| step.messages).sum());
        control.push(last_and_first_tenth(&done));
        // What the control did not finish in time must not be there in the next round.
        scratch
            .run("TRUNCATE consign_control.job, consign_control.attempt")
            .await?;
        plan.say(format!(
            "last tenth {:.0}/s, first {:.0}/s; control {:.0}/s and {:.0}/s",
            own[own.len() - 1].0,
            own[own.len() - 1].1,
            control[control.len() - 1].0,
            control[control.len() - 1].1
        ));
    }
    let unit = Unit::MessagesPerSecond;
    let figures = vec![
        Figure::beside("last tenth of the drain", unit, "first tenth", &own).target(
            Measure::Ratio,
            Bound::AtLeast,
            0.8,
        ),
        Figure::beside("the control's last tenth", unit, "first tenth", &control),
    ];
    let mut notes = vec![format!(
        "{messages} messages enqueued one by one, claimed by {CLAIM} while a REPEATABLE READ transaction stays open"
    )];
    if control_done < messages {
        notes.push(format!(
            "the control was stopped after {} s with {control_done} of {messages} done; its last tenth is of those",
            control_max.as_secs()
        ));
    }
    Ok((figures, notes))
}

/// Drains from a clean start while a snapshot is held.
async fn under_snapshot(
    scratch: &Scratch,
    worker: &mut impl Worker,
    messages: u32,
    time_max: Duration,
) -> Result<Vec<WorkStep>> {
    scratch.settle_down().await?;
    let holder = hold_snapshot(scratch).await?;
    let done = steps(worker, messages, CLAIM, time_max).await;
    holder.close().await?;
    done
}

/// A connection whose open transaction keeps every row version it might still read.
async fn hold_snapshot(scratch: &Scratch) -> Result<PgConnection> {
    let mut holder = scratch.connect().await?;
    // The snapshot is taken by the first statement, not by BEGIN.
    sqlx::raw_sql("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM consign.queue")
        .execute(&mut holder)
        .await?;
    Ok(holder)
}

fn last_and_first_tenth(steps: &[WorkStep]) -> (f64, f64) {
    let tenth = (steps.len() / 10).max(1);
    (
        rate_of(&steps[steps.len() - tenth..]),
        rate_of(&steps[..tenth]),
    )
}
