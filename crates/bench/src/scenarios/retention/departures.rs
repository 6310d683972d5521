//! Ranges that leave under traffic, beside a plain DELETE of as many rows.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use consign_kernel::{By, QueueName, QueuePolicy, Store, Token, prelude::*};
use consign_postgres::PostgresStore;
use sqlx::{Connection, Row, types::Json};

use super::{
    super::{Answer, Plan},
    Locks, begin, depart, lease, mixed, pause, prepare,
    traffic::{Delays, PACE, Traffic},
};
use crate::{
    Bound, Figure, Measure, Unit,
    drain::Worker,
    scratch::Scratch,
    subject::{StoreWorker, enqueue, payload, queue},
};

/// Ranges that have to be there at least.
const RANGES_MIN: u32 = 10;
const MEBIBYTE: f64 = 1_048_576.0;

/// One round: the traffic alone, and while ranges leave.
struct Round {
    alone: Delays,
    beside: Delays,
    /// The steps that replace ranges.
    replaced: Locks,
    /// The steps that create and close ranges.
    prepared: Locks,
}

/// How the history that is filled is mixed.
#[derive(Clone, Copy)]
pub(super) struct Mixture {
    /// One in so many messages belongs to a queue that keeps everything; `None`: none does.
    pub(super) kept_each: Option<i32>,
    /// One in so many is dead.
    pub(super) dead_each: Option<i32>,
    pub(super) must_archive: bool,
}

const PLAIN: Mixture = Mixture {
    kept_each: None,
    dead_each: None,
    must_archive: false,
};

pub(super) async fn measure(plan: &Plan, scratch: &Scratch) -> Result<Answer> {
    let per_round = (RANGES_MIN - 1).div_ceil(plan.rounds);
    let ranges = per_round * plan.rounds + 1;
    let size = plan.counts.retained / RANGES_MIN;
    let store = scratch.store().await?;
    let token = lease(store.as_ref()).await?;
    begin_history(scratch, &store, token, size).await?;
    fill(plan, scratch, &store, token, ranges, size, PLAIN).await?;

    let mut rounds = Vec::new();
    for _ in 0..plan.rounds {
        let round = round(plan, scratch, &store, token, per_round).await?;
        plan.say(format!(
            "p99 {:.2} ms alone, {:.2} ms beside {per_round} departures; longest step {:.1} ms, to prepare ranges {:.1} ms",
            round.alone.p99_ms, round.beside.p99_ms, round.replaced.longest_ms, round.prepared.longest_ms
        ));
        rounds.push(round);
    }
    let (wal, dead) = quiet(scratch, store, token).await?;
    let deleted = delete(plan, scratch).await?;
    let mixed = mixed::measure(plan, scratch, token, size).await?;

    let mut figures = figures(&rounds, &deleted, wal, dead);
    figures.extend(mixed.0);
    let refused = |round: &Round| round.replaced.refused + round.prepared.refused;
    let refused: u32 = rounds.iter().map(refused).sum();
    let mut notes = vec![format!(
        "PostgreSQL: {ranges} ranges of {size} delivered messages; a message every {PACE:?} is enqueued, claimed and settled meanwhile; \
         {per_round} ranges leave in a round, unarchived; tries that met a lock, each measured: {refused}; \
         the DELETE removes as many rows from tables without ranges, its WAL includes that of the traffic; WAL after a checkpoint"
    )];
    notes.extend(mixed.1);
    Ok((figures, notes))
}

/// What the plain ranges cost, beside a plain DELETE.
fn figures(rounds: &[Round], deleted: &Deletion, wal: f64, dead: f64) -> Vec<Figure> {
    let ms = Unit::Milliseconds;
    let pairs = |part: &dyn Fn(&Round) -> (f64, f64)| rounds.iter().map(part).collect::<Vec<_>>();
    vec![
        Figure::beside(
            "longest exclusive step of a departure",
            ms,
            "plain DELETE",
            &pairs(&|round| (round.replaced.longest_ms, deleted.took_ms)),
        )
        .target(Measure::Value, Bound::AtMost, 50.0),
        Figure::alone(
            "longest exclusive step that creates or closes ranges",
            ms,
            &rounds
                .iter()
                .map(|round| round.prepared.longest_ms)
                .collect::<Vec<_>>(),
        )
        .target(Measure::Value, Bound::AtMost, 50.0),
        Figure::beside(
            "enqueue to claim while ranges leave, p99",
            ms,
            "without",
            &pairs(&|round| (round.beside.p99_ms, round.alone.p99_ms)),
        )
        .target(Measure::Ratio, Bound::AtMost, 1.2),
        Figure::beside(
            "enqueue to claim while ranges leave, longest",
            ms,
            "without",
            &pairs(&|round| (round.beside.max_ms, round.alone.max_ms)),
        ),
        Figure::beside(
            "enqueue to claim during a plain DELETE, p99",
            ms,
            "without",
            &[(deleted.delays.p99_ms, rounds[rounds.len() - 1].alone.p99_ms)],
        ),
        Figure::beside(
            "WAL of a departure",
            Unit::Mebibytes,
            "plain DELETE",
            &[(wal / MEBIBYTE, deleted.wal / MEBIBYTE)],
        )
        .target(Measure::Value, Bound::AtMost, 0.95),
        Figure::beside(
            "dead rows left by departures",
            Unit::Count,
            "plain DELETE",
            &[(dead, deleted.dead)],
        )
        .target(Measure::Value, Bound::AtMost, 0.0),
    ]
}

fn history() -> Result<QueueName> {
    Ok("history".parse()?)
}

/// Makes the queue whose messages leave, and ends the range that the migrations made.
async fn begin_history(
    scratch: &Scratch,
    store: &Arc<PostgresStore>,
    token: Token,
    size: u32,
) -> Result<()> {
    scratch
        .run(include_str!("../../../sql/retention.sql"))
        .await?;
    set_policy(store, PLAIN).await?;
    // Ends the range, whatever its size.
    enqueue(store.as_ref(), &queue(), 1, 1).await?;
    StoreWorker::new(store.clone(), queue()).work(1).await?;
    let mut locks = Locks::default();
    prepare(store.as_ref(), token, size, Duration::ZERO, &mut locks).await
}

async fn set_policy(store: &PostgresStore, mixture: Mixture) -> Result<()> {
    let policy = QueuePolicy {
        keep_ms: Some(1),
        keep_dead_ms: Some(1),
        archive: mixture.must_archive,
        ..QueuePolicy::default()
    };
    let by = By::new("bench", "a queue to measure");
    store.put_queue(&history()?, &policy, &by).await?;
    let kept = QueuePolicy::default();
    store.put_queue(&"kept".parse()?, &kept, &by).await?;
    Ok(())
}

/// Fills so many ranges with messages that may leave, and closes them.
pub(super) async fn fill(
    plan: &Plan,
    scratch: &Scratch,
    store: &Arc<PostgresStore>,
    token: Token,
    ranges: u32,
    size: u32,
    mixture: Mixture,
) -> Result<()> {
    set_policy(store, mixture).await?;
    let mut connection = scratch.connect().await?;
    sqlx::raw_sql("SET synchronous_commit = off")
        .execute(&mut connection)
        .await?;
    for range in 1..=ranges {
        plan.say(format!("filling range {range} of {ranges}"));
        sqlx::query("CALL consign_bench.fill_history($1, $2, $3, 'kept', $4, $5)")
            .bind(history()?.as_str())
            .bind(i32::try_from(size)?)
            .bind(Json(payload()))
            .bind(mixture.kept_each)
            .bind(mixture.dead_each)
            .execute(&mut connection)
            .await
            .context("fill a range")?;
        if range == ranges && !mixture.must_archive {
            sqlx::query("SELECT consign_bench.copy_history($1)")
                .bind(i32::try_from(size)?)
                .execute(&mut connection)
                .await?;
        }
        let (day, mut locks) = (Duration::from_secs(86_400), Locks::default());
        prepare(store.as_ref(), token, size, day, &mut locks).await?;
    }
    connection.close().await?;
    scratch.settle_down().await
}

async fn round(
    plan: &Plan,
    scratch: &Scratch,
    store: &Arc<PostgresStore>,
    token: Token,
    departures: u32,
) -> Result<Round> {
    let alone = alone(plan, scratch).await?;
    let traffic = Traffic::start(scratch.store().await?, queue());
    let (mut replaced, mut prepared) = (Locks::default(), Locks::default());
    // Closes the range that the traffic uses.
    let size = plan.counts.retained / RANGES_MIN;
    prepare(store.as_ref(), token, size, Duration::ZERO, &mut prepared).await?;
    for _ in 0..departures {
        leave(store.as_ref(), token, &mut replaced).await?;
        // So that the times beside departures are as many as those without.
        tokio::time::sleep(plan.counts.retained_traffic / departures).await;
    }
    Ok(Round {
        alone,
        beside: traffic.end().await?,
        replaced,
        prepared,
    })
}

/// The traffic without anything beside it.
pub(super) async fn alone(plan: &Plan, scratch: &Scratch) -> Result<Delays> {
    let traffic = Traffic::start(scratch.store().await?, queue());
    tokio::time::sleep(plan.counts.retained_traffic).await;
    traffic.end().await
}

/// Lets one range leave; returns how many messages left.
pub(super) async fn leave(store: &dyn Store, token: Token, locks: &mut Locks) -> Result<u64> {
    let departure = begin(store, token).await?;
    let departure = departure.context("no range may leave")?;
    let mut removed = 0;
    loop {
        let started = Instant::now();
        let progress = depart(store, token, &departure, locks).await?;
        removed += progress.removed;
        if progress.is_over {
            return Ok(removed);
        }
        pause(started).await;
    }
}

/// The WAL of a departure without traffic, and the dead rows that all departures left.
async fn quiet(scratch: &Scratch, store: Arc<PostgresStore>, token: Token) -> Result<(f64, f64)> {
    scratch.checkpoint().await?;
    let before = number(scratch, "SELECT consign_bench.wal_position()").await?;
    leave(store.as_ref(), token, &mut Locks::default()).await?;
    let after = number(scratch, "SELECT consign_bench.wal_position()").await?;
    Ok((after - before, dead_rows(scratch, store).await?))
}

/// The dead rows of the history. A session counts them when it ends, at the latest: that of `store` must be the last.
pub(super) async fn dead_rows(scratch: &Scratch, store: Arc<PostgresStore>) -> Result<f64> {
    store.pool().close().await;
    drop(store);
    scratch.until_no_store().await?;
    number(scratch, "SELECT consign_bench.dead_history('consign')").await
}

/// What a plain DELETE costs.
struct Deletion {
    took_ms: f64,
    wal: f64,
    dead: f64,
    delays: Delays,
}

async fn delete(plan: &Plan, scratch: &Scratch) -> Result<Deletion> {
    plan.say("deleting as many rows");
    scratch.checkpoint().await?;
    let traffic = Traffic::start(scratch.store().await?, queue());
    let before = number(scratch, "SELECT consign_bench.wal_position()").await?;
    let started = Instant::now();
    scratch.run("SELECT consign_bench.delete_history()").await?;
    let took_ms = started.elapsed().as_secs_f64() * 1e3;
    let after = number(scratch, "SELECT consign_bench.wal_position()").await?;
    Ok(Deletion {
        took_ms,
        wal: after - before,
        delays: traffic.end().await?,
        dead: number(
            scratch,
            "SELECT consign_bench.dead_history('consign_bench')",
        )
        .await?,
    })
}

async fn number(scratch: &Scratch, sql: &'static str) -> Result<f64> {
    let mut connection = scratch.connect().await?;
    let row = sqlx::query(sql).fetch_one(&mut connection).await?;
    connection.close().await?;
    Ok(row.try_get::<i64, _>(0)? as f64)
}
