//! A SQLite file that shrinks again, and how long writers wait meanwhile.

use std::{path::Path, sync::Arc, time::Instant};

use anyhow::Result;
use consign_kernel::{By, QueueName, QueuePolicy, prelude::*};
use consign_sqlite::SqliteStore;
use sqlx::{Connection, SqliteConnection};

use super::{
    super::{Answer, Plan, sqlite},
    Locks, begin, depart, lease, pause,
    traffic::{PACE, Traffic},
};
use crate::{
    Bound, Figure, Measure, Unit, drain,
    subject::{StoreWorker, enqueue, queue},
};

const BATCH: u32 = 500;
const MEBIBYTE: f64 = 1_048_576.0;

pub(super) async fn measure(plan: &Plan) -> Result<Answer> {
    let directory = sqlite::directory(&plan.directory)?;
    let file = directory.path().join("retention.db");
    let store = sqlite::open(directory.path(), "retention.db").await?;
    let tenth = plan.counts.retained_sqlite / 10;
    let (kept, history): (QueueName, QueueName) = ("kept".parse()?, "history".parse()?);
    let by = By::new("bench", "a queue to measure");
    store.put_queue(&kept, &QueuePolicy::default(), &by).await?;
    let policy = QueuePolicy {
        keep_ms: Some(1),
        archive: false,
        ..QueuePolicy::default()
    };
    store.put_queue(&history, &policy, &by).await?;
    deliver(&store, &kept, tenth).await?;
    let first = mebibytes(&file).await?;
    plan.say(format!("SQLite: {first:.0} MiB after the first tenth"));
    deliver(&store, &history, tenth * 9).await?;
    let full = mebibytes(&file).await?;
    plan.say(format!("SQLite: {full:.0} MiB after all"));

    store.take_longest_hold();
    let traffic = Traffic::start(store.clone(), queue());
    let token = lease(store.as_ref()).await?;
    let started = Instant::now();
    let (mut longest_ms, mut removed) = (0.0_f64, 0);
    while let Some(departure) = begin(store.as_ref(), token).await? {
        loop {
            let step = Instant::now();
            let mut locks = Locks::default();
            let progress = depart(store.as_ref(), token, &departure, &mut locks).await?;
            longest_ms = longest_ms.max(step.elapsed().as_secs_f64() * 1e3);
            removed += progress.removed;
            if progress.is_over {
                break;
            }
            pause(step).await;
        }
    }
    let rate = removed as f64 / started.elapsed().as_secs_f64();
    let held_ms = store.take_longest_hold().as_secs_f64() * 1e3;
    let delays = traffic.end().await?;
    let last = mebibytes(&file).await?;
    let figures = vec![
        Figure::beside(
            "SQLite: file after nine tenths have left",
            Unit::Mebibytes,
            "after the first tenth",
            &[(last, first)],
        )
        .target(Measure::Ratio, Bound::AtMost, 1.2),
        Figure::alone(
            "SQLite: longest wait from enqueue to claim meanwhile",
            Unit::Milliseconds,
            &[delays.max_ms],
        )
        .target(Measure::Value, Bound::AtMost, 100.0),
        Figure::alone(
            "SQLite: longest time under the write lock, commit included",
            Unit::Milliseconds,
            &[held_ms],
        )
        .target(Measure::Value, Bound::AtMost, 50.0),
        Figure::alone(
            "SQLite: longest step of a departure, waiting and vacuum included",
            Unit::Milliseconds,
            &[longest_ms],
        ),
        Figure::alone(
            "SQLite: messages that left",
            Unit::MessagesPerSecond,
            &[rate],
        ),
    ];
    let notes = vec![format!(
        "SQLite: {} messages of which a tenth stays, {full:.0} MiB with all of them; a message every {PACE:?} meanwhile",
        plan.counts.retained_sqlite
    )];
    Ok((figures, notes))
}

async fn deliver(store: &Arc<SqliteStore>, queue: &QueueName, messages: u32) -> Result<()> {
    enqueue(store.as_ref(), queue, messages, BATCH).await?;
    let mut worker = StoreWorker::new(store.clone(), queue.clone());
    drain::rate(&mut worker, messages, BATCH).await?;
    Ok(())
}

/// The size of the file once everything is in it.
async fn mebibytes(file: &Path) -> Result<f64> {
    let mut connection = SqliteConnection::connect(&format!("sqlite:{}", file.display())).await?;
    sqlx::raw_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        .execute(&mut connection)
        .await?;
    connection.close().await?;
    Ok(std::fs::metadata(file)?.len() as f64 / MEBIBYTE)
}
