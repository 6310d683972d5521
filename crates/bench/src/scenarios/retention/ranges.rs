//! Whether many ranges cost more than few.

use std::{sync::Arc, time::Instant};

use anyhow::{Context, Result};
use consign_postgres::PostgresStore;
use sqlx::Connection;

use super::super::{Answer, Plan};
use crate::{
    Bound, Figure, Measure, Unit, drain,
    scratch::Scratch,
    subject::{StoreWorker, enqueue, queue},
};

/// The least that many ranges may reach of what few do.
const LEAST: f64 = 0.97;
const BATCH: u32 = 100;

/// Messages per second of one database in one round.
struct Rates {
    enqueued: f64,
    singles: f64,
    batches: f64,
}

pub(super) async fn measure(plan: &Plan, scratch: &Scratch) -> Result<Answer> {
    let server = plan.server.as_deref().context("invariant: on a server")?;
    let other = Scratch::create(server, "ranges").await?;
    let measured = beside(plan, scratch, &other).await;
    other.remove().await?;
    measured
}

async fn beside(plan: &Plan, scratch: &Scratch, other: &Scratch) -> Result<Answer> {
    other.migrate().await?;
    other
        .run(include_str!("../../../sql/retention.sql"))
        .await?;
    let mut connection = other.connect().await?;
    sqlx::query("SELECT consign_bench.add_ranges($1)")
        .bind(i32::try_from(plan.counts.ranges)?)
        .execute(&mut connection)
        .await
        .context("add ranges")?;
    connection.close().await?;
    let (few, many) = (scratch.store().await?, other.store().await?);
    // Connecting, preparing and planning is no part of a message.
    for store in [&few, &many] {
        round(store, BATCH).await?;
    }
    let mut rounds = Vec::new();
    for _ in 0..plan.rounds {
        scratch.settle_down().await?;
        other.settle_down().await?;
        let pair = (
            round(&many, plan.counts.ranges_messages).await?,
            round(&few, plan.counts.ranges_messages).await?,
        );
        plan.say(format!(
            "{} ranges: {:.0}/s enqueued, {:.0}/s and {:.0}/s settled; few: {:.0}/s, {:.0}/s, {:.0}/s",
            plan.counts.ranges,
            pair.0.enqueued,
            pair.0.singles,
            pair.0.batches,
            pair.1.enqueued,
            pair.1.singles,
            pair.1.batches
        ));
        rounds.push(pair);
    }
    let figure = |name: &str, part: &dyn Fn(&Rates) -> f64| {
        let pairs: Vec<(f64, f64)> = rounds
            .iter()
            .map(|(many, few)| (part(many), part(few)))
            .collect();
        Figure::beside(name, Unit::MessagesPerSecond, "few ranges", &pairs).target(
            Measure::Ratio,
            Bound::AtLeast,
            LEAST,
        )
    };
    let figures = vec![
        figure("many ranges: enqueued one by one", &|r| r.enqueued),
        figure("many ranges: claimed and settled one by one", &|r| {
            r.singles
        }),
        figure("many ranges: claimed and settled by 100", &|r| r.batches),
    ];
    let notes = vec![format!(
        "many: {} ranges; few: those that the departures left; {} messages a round, in turns",
        plan.counts.ranges, plan.counts.ranges_messages
    )];
    Ok((figures, notes))
}

async fn round(store: &Arc<PostgresStore>, messages: u32) -> Result<Rates> {
    let mut worker = StoreWorker::new(store.clone(), queue());
    let started = Instant::now();
    enqueue(store.as_ref(), &queue(), messages, 1).await?;
    let enqueued = f64::from(messages) / started.elapsed().as_secs_f64();
    let singles = drain::rate(&mut worker, messages, 1).await?;
    enqueue(store.as_ref(), &queue(), messages * 10, BATCH).await?;
    let batches = drain::rate(&mut worker, messages * 10, BATCH).await?;
    Ok(Rates {
        enqueued,
        singles,
        batches,
    })
}
