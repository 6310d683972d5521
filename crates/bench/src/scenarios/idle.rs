//! What a server with ten idle queues costs.

use std::time::{Duration, Instant};

use anyhow::Result;
use sqlx::{PgConnection, Row};
use tokio::time::{Instant as Later, interval_at};

use super::{Answer, Plan};
use crate::{
    Bound, Figure, Measure, Unit,
    process::{Process, config},
    scratch::Scratch,
    usage::{processor_time, resident_mib},
};

const QUEUES: u32 = 10;
/// After it has started, and between rounds, so that the counters of each session are reported.
const REST: Duration = Duration::from_secs(2);

pub(super) async fn run(plan: &Plan, scratch: &Scratch) -> Result<Answer> {
    let queues: String = (0..QUEUES)
        .map(|queue| format!("[queues.queue-{queue}.sink]\nkind = \"discard\"\n"))
        .collect();
    let program = plan.program()?;
    let serve = program
        .start("serve", "idle", &config(scratch.url(), &queues))
        .await?;
    let mut connection = scratch.connect().await?;
    pass(REST).await;
    let (mut shares, mut queries, mut memory) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..plan.rounds.min(3) {
        let (share, rate) = look(&mut connection, &serve, plan.counts.idle).await?;
        shares.push(share * 100.0);
        queries.push(rate / f64::from(QUEUES));
        memory.push(resident_mib(serve.pid)?);
        plan.say(format!(
            "{:.3}% of a core, {:.2} transactions/s per queue, {:.1} MiB",
            share * 100.0,
            rate / f64::from(QUEUES),
            memory[memory.len() - 1]
        ));
    }
    serve.terminate().await?;
    let most = |name: &str, unit, rounds: &[f64], limit| {
        Figure::alone(name, unit, rounds).target(Measure::Value, Bound::AtMost, limit)
    };
    let figures = vec![
        most("share of one core", Unit::Percent, &shares, 1.0),
        most("transactions per queue", Unit::PerSecond, &queries, 2.0),
        most("resident memory", Unit::Mebibytes, &memory, 30.0),
    ];
    let notes = vec![format!(
        "`consign serve` with {QUEUES} queues and nothing to do, {} s a round; transactions of its database by pg_stat_database, \
         those of its samples and of looks for redrives included",
        plan.counts.idle.as_secs()
    )];
    Ok((figures, notes))
}

/// Share of one core, and transactions per second, over a while.
async fn look(
    connection: &mut PgConnection,
    serve: &Process,
    during: Duration,
) -> Result<(f64, f64)> {
    let started = Instant::now();
    let before = (
        processor_time(serve.pid)?,
        transactions(&mut *connection).await?,
    );
    pass(during).await;
    let after = (processor_time(serve.pid)?, transactions(connection).await?);
    let took = started.elapsed().as_secs_f64();
    let used = after.0.saturating_sub(before.0).as_secs_f64();
    // The look itself is one of them.
    let made = (after.1 - before.1 - 1).max(0) as f64;
    Ok((used / took, made / took))
}

async fn transactions(connection: &mut PgConnection) -> Result<i64> {
    let row = sqlx::query(include_str!("../../sql/transactions.sql"))
        .fetch_one(connection)
        .await?;
    Ok(row.try_get("transactions")?)
}

/// Lets time pass: here it is what is measured.
async fn pass(time: Duration) {
    interval_at(Later::now() + time, time).tick().await;
}
