//! Ranges as real databases have them: some messages are dead, some stay, and an archive is written.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use async_trait::async_trait;
use consign_archive::Archive;
use consign_kernel::{Certainty, Error, Layer, LayeredStore, Store, Token};
use consign_retention::{Maintenance, Options};

use super::{
    super::{Answer, Plan, sqlite},
    Locks,
    departures::{Mixture, alone, dead_rows, fill, leave},
    lease, release,
    traffic::{Delays, Traffic},
};
use crate::{Bound, Figure, Measure, Unit, scratch::Scratch, subject::queue};

const RANGES: u32 = 3;
const KEPT_EACH: i32 = 100;
const DEAD_EACH: i32 = 1_000;

/// What the ranges of this mixture cost.
#[derive(Default)]
struct Cost {
    locks: Locks,
    archived: Vec<f64>,
    messages: u64,
}

pub(super) async fn measure(
    plan: &Plan,
    scratch: &Scratch,
    token: Token,
    size: u32,
) -> Result<Answer> {
    let store = scratch.store().await?;
    let mixture = Mixture {
        kept_each: Some(KEPT_EACH),
        dead_each: Some(DEAD_EACH),
        must_archive: true,
    };
    fill(plan, scratch, &store, token, RANGES, size, mixture).await?;
    let directory = sqlite::directory(&plan.directory)?;
    let archive = Archive::open(directory.path().join("archive"))?;
    release(store.as_ref(), token).await?;

    let alone = alone(plan, scratch).await?;
    let traffic = Traffic::start(scratch.store().await?, queue());
    let mut cost = Cost::default();
    for _ in 0..RANGES {
        let seconds = write_archive(&store, &archive, size).await?;
        let token = lease(store.as_ref()).await?;
        let removed = leave(store.as_ref(), token, &mut cost.locks).await?;
        release(store.as_ref(), token).await?;
        cost.archived.push(removed as f64 / seconds);
        cost.messages += removed;
    }
    let beside = traffic.end().await?;
    plan.say(format!(
        "archived {:.0} messages a second; longest step {:.1} ms; p99 {:.2} ms alone, {:.2} ms beside",
        cost.archived[0], cost.locks.longest_ms, alone.p99_ms, beside.p99_ms
    ));
    let bytes = size_of(archive.folder())?;
    let dead = dead_rows(scratch, store).await?;
    Ok(answer(&cost, &alone, &beside, dead, bytes, size))
}

fn answer(
    cost: &Cost,
    alone: &Delays,
    beside: &Delays,
    dead: f64,
    bytes: u64,
    size: u32,
) -> Answer {
    let ms = Unit::Milliseconds;
    let figures = vec![
        Figure::alone(
            "mixed ranges: longest exclusive step of a departure",
            ms,
            &[cost.locks.longest_ms],
        )
        .target(Measure::Value, Bound::AtMost, 50.0),
        Figure::beside(
            "mixed ranges: enqueue to claim while they are archived and leave, p99",
            ms,
            "without",
            &[(beside.p99_ms, alone.p99_ms)],
        ),
        Figure::alone(
            "mixed ranges: written to the archive, read back and compared",
            Unit::MessagesPerSecond,
            &cost.archived,
        ),
        Figure::alone(
            "mixed ranges: dead rows left by departures",
            Unit::Count,
            &[dead],
        ),
    ];
    let notes = vec![format!(
        "mixed ranges: {RANGES} of {size} messages, of which one in {KEPT_EACH} belongs to a queue that keeps everything and one in \
         {DEAD_EACH} is dead; {} left, {} bytes each in the archive; tries that met a lock, each measured: {}; \
         dead rows are those of `dead` and of keys",
        cost.messages,
        bytes / cost.messages.max(1),
        cost.locks.refused
    )];
    (figures, notes)
}

/// Lets a pass begin the next departure and archive it, and stops it there; returns how long the archive took.
async fn write_archive(
    store: &Arc<consign_postgres::PostgresStore>,
    archive: &Archive,
    size: u32,
) -> Result<f64> {
    let stopped = Arc::new(LayeredStore(UntilArchived {
        inner: store.clone(),
        begun: Mutex::new(None),
        took: Mutex::new(None),
    }));
    let options = Options {
        owner: "bench".to_owned(),
        archive: Some(archive.clone()),
        store: "postgres",
        range_messages: size.into(),
        range_age: Duration::from_secs(86_400),
        size_max_bytes: None,
    };
    match Maintenance::new(stopped.clone(), options).pass().await {
        Err(consign_retention::Error::Store(Error::Unavailable { .. })) => {}
        ended => bail!("a pass that stops at a departure ended otherwise: {ended:?}"),
    }
    let took = *stopped.took.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(took.context("no range was archived")?.as_secs_f64())
}

fn size_of(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes)
}

/// A store that times what is between a departure's beginning and its first step, which it rejects.
struct UntilArchived {
    inner: Arc<dyn Store>,
    begun: Mutex<Option<Instant>>,
    took: Mutex<Option<Duration>>,
}

#[async_trait]
impl Layer for UntilArchived {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn before(&self, operation: &'static str) -> consign_kernel::Result<()> {
        if operation != "depart" {
            return Ok(());
        }
        let begun = *self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let mut took = self.took.lock().unwrap_or_else(PoisonError::into_inner);
        *took = begun.map(|begun| begun.elapsed());
        Err(Error::Unavailable {
            attempted: operation,
            certainty: Certainty::Definite,
            source: "the benchmark times the departure itself".into(),
        })
    }

    async fn after(&self, operation: &'static str, _succeeded: bool) -> consign_kernel::Result<()> {
        if operation == "begin_departure" {
            let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
            *begun = Some(Instant::now());
        }
        Ok(())
    }
}
