//! What a delivered message costs in WAL and commits, enqueue included.

mod meter;

use anyhow::Result;

use self::meter::{Meter, Usage};
use super::{Answer, Plan};
use crate::{
    Bound, Figure, Measure, Unit, drain,
    scratch::Scratch,
    subject::{StoreWorker, enqueue, queue},
};

const CLAIM: u32 = 100;

struct Case {
    name: &'static str,
    /// Messages per enqueueing transaction.
    enqueued: u32,
    /// Whether a checkpoint falls between enqueue and claim, so that every page that is changed
    /// again is written to the WAL whole.
    checkpoint_between: bool,
    bytes_max: Option<f64>,
}

const CASES: &[Case] = &[
    Case {
        name: "by 100",
        enqueued: 100,
        checkpoint_between: false,
        bytes_max: Some(0.8 * 1024.0),
    },
    Case {
        name: "one by one",
        enqueued: 1,
        checkpoint_between: false,
        bytes_max: Some(1.5 * 1024.0),
    },
    Case {
        name: "by 100, checkpoint between",
        enqueued: 100,
        checkpoint_between: true,
        bytes_max: None,
    },
];

/// One design's usage: its messages delivered, what that left behind, and the vacuum after it.
struct WalFigures {
    delivered: Usage,
    dead_rows: f64,
    vacuum: Usage,
}

pub(super) async fn run(plan: &Plan, scratch: &Scratch) -> Result<Answer> {
    let messages = f64::from(plan.counts.wal);
    let mut figures = Vec::new();
    let mut notes = vec![format!(
        "{} messages a round, claimed by {CLAIM}; VACUUM and CHECKPOINT before each enqueue; WAL of the whole server",
        plan.counts.wal
    )];
    for case in CASES {
        let mut rounds = Vec::new();
        let mut tables = [String::new(), String::new()];
        for _ in 0..plan.rounds {
            let (own, own_tables) = consign(plan, scratch, case).await?;
            let (other, other_tables) = control(plan, scratch, case).await?;
            plan.say(format!(
                "{}: {:.0} B, control {:.0} B",
                case.name,
                own.delivered.bytes / messages,
                other.delivered.bytes / messages
            ));
            rounds.push((own, other));
            tables = [own_tables, other_tables];
        }
        figures.extend(figures_of(case, &rounds, messages));
        let [own, other] = tables;
        notes.push(format!(
            "dead rows left, {}: {own}; control: {other}",
            case.name
        ));
    }
    Ok((figures, notes))
}

fn figures_of(case: &Case, rounds: &[(WalFigures, WalFigures)], messages: f64) -> Vec<Figure> {
    let beside = |what: &str, unit, part: &dyn Fn(&WalFigures) -> f64| {
        let pairs: Vec<(f64, f64)> = rounds
            .iter()
            .map(|(own, other)| (part(own) / messages, part(other) / messages))
            .collect();
        Figure::beside(format!("{}: {what}", case.name), unit, "control", &pairs)
    };
    let total = beside("WAL", Unit::BytesPerMessage, &|m| m.delivered.bytes);
    let mut figures = vec![match case.bytes_max {
        Some(most) => total.target(Measure::Value, Bound::AtMost, most),
        None => total,
    }];
    let known = |m: &WalFigures| m.delivered.page_image_bytes.is_some();
    if rounds.iter().all(|(own, other)| known(own) && known(other)) {
        let images = |m: &WalFigures| m.delivered.page_image_bytes.unwrap_or_default();
        figures.push(beside(
            "of which full pages",
            Unit::BytesPerMessage,
            &images,
        ));
    }
    figures.push(beside("full pages", Unit::PerMessage, &|m| {
        m.delivered.page_images
    }));
    figures.push(beside("write transactions", Unit::PerMessage, &|m| {
        m.delivered.transactions
    }));
    figures.push(beside("dead rows left", Unit::PerMessage, &|m| m.dead_rows));
    figures.push(beside("WAL of VACUUM after", Unit::BytesPerMessage, &|m| {
        m.vacuum.bytes
    }));
    figures
}

async fn consign(plan: &Plan, scratch: &Scratch, case: &Case) -> Result<(WalFigures, String)> {
    let store = scratch.store().await?;
    let mut worker = StoreWorker::new(store.clone(), queue());
    // Connecting and preparing statements is no part of a message.
    enqueue(store.as_ref(), &queue(), CLAIM, CLAIM).await?;
    drain::rate(&mut worker, CLAIM, CLAIM).await?;
    scratch.settle_down().await?;
    let meter = Meter::start(scratch).await?;
    enqueue(store.as_ref(), &queue(), plan.counts.wal, case.enqueued).await?;
    if case.checkpoint_between {
        scratch.checkpoint().await?;
    }
    drain::rate(&mut worker, plan.counts.wal, CLAIM).await?;
    // A session reports its statistics when it ends. The store keeps a connection at hand,
    // for which closing its pool would wait.
    drop((worker, store));
    scratch.until_no_store().await?;
    measured(scratch, meter, "consign").await
}

async fn control(plan: &Plan, scratch: &Scratch, case: &Case) -> Result<(WalFigures, String)> {
    let mut worker = scratch.control().await?;
    worker.enqueue(CLAIM, CLAIM).await?;
    drain::rate(&mut worker, CLAIM, CLAIM).await?;
    scratch.settle_down().await?;
    let meter = Meter::start(scratch).await?;
    worker.enqueue(plan.counts.wal, case.enqueued).await?;
    if case.checkpoint_between {
        scratch.checkpoint().await?;
    }
    drain::rate(&mut worker, plan.counts.wal, CLAIM).await?;
    worker.close().await?;
    measured(scratch, meter, "consign_control").await
}

async fn measured(scratch: &Scratch, meter: Meter, schema: &str) -> Result<(WalFigures, String)> {
    let delivered = meter.stop().await?;
    let dead = scratch.dead_rows(schema).await?;
    let meter = Meter::start(scratch).await?;
    scratch.vacuum().await?;
    let vacuum = meter.stop().await?;
    let tables: Vec<String> = dead
        .iter()
        .map(|(table, rows)| format!("{table} {rows}"))
        .collect();
    let measured = WalFigures {
        delivered,
        dead_rows: dead.iter().map(|(_, rows)| *rows as f64).sum(),
        vacuum,
    };
    Ok((measured, tables.join(", ")))
}
