//! Ranges that leave under traffic, beside a plain DELETE of as many rows.

use std::{sync::Arc, time::Instant};

use anyhow::{Context, Result, ensure};
use consign_kernel::{By, QueueName, QueuePolicy, Store, Token, prelude::*};
use consign_postgres::PostgresStore;
use sqlx::{Connection, Row, types::Json};

use super::{
    super::{Answer, Plan},
    begin, depart, lease,
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
    /// The longest step that holds exclusive locks.
    longest_ms: f64,
    locked: u32,
}

pub(super) async fn measure(plan: &Plan, scratch: &Scratch) -> Result<Answer> {
    let per_round = (RANGES_MIN - 1).div_ceil(plan.rounds);
    let ranges = per_round * plan.rounds + 1;
    let size = plan.counts.retained / RANGES_MIN;
    let store = scratch.store().await?;
    let token = lease(store.as_ref()).await?;
    fill(plan, scratch, &store, token, ranges, size).await?;

    let mut rounds = Vec::new();
    for _ in 0..plan.rounds {
        let round = round(plan, scratch, &store, token, per_round).await?;
        plan.say(format!(
            "p99 {:.2} ms alone, {:.2} ms beside {per_round} departures; longest step {:.1} ms",
            round.alone.p99_ms, round.beside.p99_ms, round.longest_ms
        ));
        rounds.push(round);
    }
    let (wal, dead) = quiet(scratch, &store, token).await?;
    let deleted = delete(plan, scratch).await?;

    let ms = Unit::Milliseconds;
    let pairs = |part: &dyn Fn(&Round) -> (f64, f64)| rounds.iter().map(part).collect::<Vec<_>>();
    let figures = vec![
        Figure::beside(
            "longest exclusive step of a departure",
            ms,
            "plain DELETE",
            &pairs(&|round| (round.longest_ms, deleted.took_ms)),
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
    ];
    let locked: u32 = rounds.iter().map(|round| round.locked).sum();
    let notes = vec![format!(
        "PostgreSQL: {ranges} ranges of {size} delivered messages; a message every {PACE:?} is enqueued, claimed and settled meanwhile; \
         {per_round} ranges leave in a round, unarchived; steps repeated because of a lock: {locked}; \
         the DELETE removes as many rows from tables without ranges, its WAL includes that of the traffic; WAL after a checkpoint"
    )];
    Ok((figures, notes))
}

fn history() -> Result<QueueName> {
    Ok("history".parse()?)
}

/// Makes the ranges and fills them with messages that may leave.
async fn fill(
    plan: &Plan,
    scratch: &Scratch,
    store: &Arc<PostgresStore>,
    token: Token,
    ranges: u32,
    size: u32,
) -> Result<()> {
    scratch
        .run(include_str!("../../../sql/retention.sql"))
        .await?;
    let policy = QueuePolicy {
        keep_ms: Some(1),
        archive: false,
        ..QueuePolicy::default()
    };
    let by = By::new("bench", "a queue to measure");
    store.put_queue(&history()?, &policy, &by).await?;
    // Ends the range that the migrations made, whatever its size.
    enqueue(store.as_ref(), &queue(), 1, 1).await?;
    StoreWorker::new(store.clone(), queue()).work(1).await?;
    let prepare = |age| store.prepare_ranges(token, size.into(), age);
    ensure!(matches!(
        prepare(std::time::Duration::ZERO).await?,
        consign_kernel::Step::Done(_)
    ));
    let mut connection = scratch.connect().await?;
    sqlx::raw_sql("SET synchronous_commit = off")
        .execute(&mut connection)
        .await?;
    for range in 1..=ranges {
        plan.say(format!("filling range {range} of {ranges}"));
        sqlx::query("CALL consign_bench.fill_history($1, $2, $3)")
            .bind(history()?.as_str())
            .bind(i32::try_from(size)?)
            .bind(Json(payload()))
            .execute(&mut connection)
            .await
            .context("fill a range")?;
        if range == ranges {
            sqlx::query("SELECT consign_bench.copy_history($1)")
                .bind(i32::try_from(size)?)
                .execute(&mut connection)
                .await?;
        }
        ensure!(matches!(
            prepare(std::time::Duration::from_secs(86_400)).await?,
            consign_kernel::Step::Done(_)
        ));
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
    let traffic = Traffic::start(scratch.store().await?, queue());
    tokio::time::sleep(plan.counts.retained_traffic).await;
    let alone = traffic.end().await?;
    let traffic = Traffic::start(scratch.store().await?, queue());
    let (mut longest_ms, mut locked) = (0.0_f64, 0);
    for _ in 0..departures {
        let (longest, repeated) = leave(store.as_ref(), token).await?;
        longest_ms = longest_ms.max(longest);
        locked += repeated;
        // So that the times beside departures are as many as those without.
        tokio::time::sleep(plan.counts.retained_traffic / departures).await;
    }
    Ok(Round {
        alone,
        beside: traffic.end().await?,
        longest_ms,
        locked,
    })
}

/// Lets one range leave; returns how long the step took that holds exclusive locks, in milliseconds,
/// and how many steps met a lock. The next step drops what no statement reaches any more.
async fn leave(store: &dyn Store, token: Token) -> Result<(f64, u32)> {
    let departure = begin(store, token).await?;
    let departure = departure.context("no range may leave")?;
    let (mut longest_ms, mut locked) = (0.0_f64, 0);
    loop {
        let started = Instant::now();
        let (progress, repeated) = depart(store, token, &departure).await?;
        if repeated == 0 && progress.removed > 0 {
            longest_ms = longest_ms.max(started.elapsed().as_secs_f64() * 1e3);
        }
        locked += repeated;
        if progress.is_over {
            return Ok((longest_ms, locked));
        }
    }
}

/// The WAL of a departure without traffic, and the dead rows that all departures left.
async fn quiet(scratch: &Scratch, store: &Arc<PostgresStore>, token: Token) -> Result<(f64, f64)> {
    scratch.checkpoint().await?;
    let before = number(scratch, "SELECT consign_bench.wal_position()").await?;
    leave(store.as_ref(), token).await?;
    let after = number(scratch, "SELECT consign_bench.wal_position()").await?;
    let dead = number(scratch, "SELECT consign_bench.dead_history('consign')").await?;
    Ok((after - before, dead))
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
