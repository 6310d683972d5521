//! Durable claim and settle on SQLite.

use std::{path::Path, sync::Arc};

use anyhow::{Context, Result};
use consign_sqlite::{SqliteOptions, SqliteStore};
use tempfile::TempDir;

use super::{Answer, Plan};
use crate::{
    Bound, Figure, Measure, Unit, drain,
    subject::{StoreWorker, enqueue, queue},
};

/// Messages per enqueue and claim, and the least that is good.
const CASES: &[(u32, Option<f64>)] = &[(100, Some(50_000.0)), (500, None)];

pub(super) async fn run(plan: &Plan) -> Result<Answer> {
    let directory = directory(&plan.directory)?;
    let mut figures = Vec::new();
    for (batch, least) in CASES {
        let store = open(directory.path(), &format!("by-{batch}.db")).await?;
        let mut worker = StoreWorker::new(store.clone(), queue());
        let mut rounds = Vec::new();
        for _ in 0..plan.rounds {
            enqueue(store.as_ref(), &queue(), plan.counts.sqlite, *batch).await?;
            let rate = drain::rate(&mut worker, plan.counts.sqlite, *batch).await?;
            plan.say(format!("by {batch}: {rate:.0}/s"));
            rounds.push(rate);
        }
        let name = format!("enqueued by {batch}, claimed by {batch}");
        let figure = Figure::alone(name, Unit::MessagesPerSecond, &rounds);
        figures.push(match least {
            Some(least) => figure.target(Measure::Value, Bound::AtLeast, *least),
            None => figure,
        });
    }
    let notes = vec![format!(
        "one worker; every commit is on the disk before it is answered; {} messages a round into one growing file",
        plan.counts.sqlite
    )];
    Ok((figures, notes))
}

/// A directory of our own, gone together with the value.
pub(super) fn directory(parent: &Path) -> Result<TempDir> {
    tempfile::Builder::new()
        .prefix("consign-bench-")
        .tempdir_in(parent)
        .with_context(|| format!("make a directory in {}", parent.display()))
}

/// A new database in a file.
pub(super) async fn open(directory: &Path, name: &str) -> Result<Arc<SqliteStore>> {
    let path = directory.join(name);
    let path = path
        .to_str()
        .context("the directory's path must be UTF-8")?;
    let options = SqliteOptions::new(path)?
        // The binary under test has every app.
        .component(consign_orders::store::sqlite_component())
        .component(consign_payments::store::sqlite_component())
        .component(consign_memory::store::sqlite_component())
        .component(consign_scm_app::sqlite_component())
        .migrate_on_open(true);
    Ok(Arc::new(SqliteStore::open(&options).await?))
}
