//! From an enqueue's commit to the start of its delivery, when idle.

mod floor;
mod timing;

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use consign_kernel::{By, NewMessage, QueueName, QueuePolicy, prelude::*};
use consign_postgres::{Pooler, PostgresOptions, PostgresStore};
use sqlx::PgConnection;
use tokio::time::Instant;

use self::floor::Floor;
pub(super) use self::timing::{Times, TimingWorker, rest};
use super::{Answer, Plan, sqlite};
use crate::{
    Bound, Figure, Measure, Unit,
    pgbouncer::PgBouncer,
    scratch::Scratch,
    subject::{payload, queue},
};

/// How long a queue rests before each message: the worker has settled the last and waits.
const REST: Duration = Duration::from_millis(25);

pub(super) async fn run(plan: &Plan, scratch: &Scratch) -> Result<Answer> {
    let counts = plan.counts;
    let polled: QueueName = "polled".parse()?;
    let store = scratch.store().await?;
    let policy = QueuePolicy {
        notify: false,
        ..QueuePolicy::default()
    };
    let by = By::new("bench", "a queue to measure");
    store.put_queue(&polled, &policy, &by).await?;

    let mut figures = notified(plan, scratch).await?;
    plan.say("polled");
    let direct = PostgresOptions::new(scratch.url());
    let times = on_postgres(
        scratch,
        &direct,
        &polled,
        counts.pickups_polled,
        counts.polled_rest,
    );
    figures.extend(times.await?.figures("PostgreSQL, polled"));

    let mut notes = vec![format!(
        "{} messages, each after a rest of {} ms or a little more; polled: {} after {} ms; from just before COMMIT is sent to the sink's call; \
         SQLite: from the enqueue's answer, and from its call",
        counts.pickups,
        REST.as_millis(),
        counts.pickups_polled,
        counts.polled_rest.as_millis()
    )];
    match PgBouncer::start(scratch.url()).await? {
        Some(bouncer) => figures.extend(pooled(plan, scratch, &bouncer).await?),
        None => notes.push("pgbouncer is not installed: not measured".to_owned()),
    }
    plan.say("SQLite");
    figures.extend(on_sqlite(plan).await?);
    Ok((figures, notes))
}

/// With notifications, in turns with a bare one.
async fn notified(plan: &Plan, scratch: &Scratch) -> Result<Vec<Figure>> {
    plan.say("notified");
    let store = Arc::new(PostgresStore::connect(&PostgresOptions::new(scratch.url())).await?);
    let mut timed = TimingWorker::start(store, &queue(), true);
    let mut producer = scratch.connect().await?;
    let mut floor = Floor::start(scratch).await?;
    let (mut own, mut bare) = (Times::default(), Times::default());
    for _ in 0..plan.counts.pickups {
        rest(REST).await;
        bare.add(floor.sample().await?);
        rest(REST).await;
        own.add(sample(&mut producer, &mut timed, &queue()).await?);
    }
    timed.end().await;
    let figure = |percentile, limit| {
        let name = format!("PostgreSQL, notified, p{percentile}");
        let pair = (own.ms(percentile), bare.ms(percentile));
        Figure::beside(name, Unit::Milliseconds, "bare notification", &[pair]).target(
            Measure::Value,
            Bound::AtMost,
            limit,
        )
    };
    Ok(vec![figure(50, 3.0), figure(99, 8.0)])
}

/// Through PgBouncer: with wake-ups on the side, and without.
async fn pooled(plan: &Plan, scratch: &Scratch, bouncer: &PgBouncer) -> Result<Vec<Figure>> {
    plan.say("through PgBouncer");
    let counts = plan.counts;
    let options = PostgresOptions {
        pooler: Pooler::Transaction,
        ..PostgresOptions::new(bouncer.url(scratch.url())?)
    };
    let with_listener = PostgresOptions {
        listen_url: Some(scratch.url().to_owned()),
        ..options.clone()
    };
    let listening = on_postgres(scratch, &with_listener, &queue(), counts.pickups, REST).await?;
    let (samples, pause) = (counts.pickups_polled, counts.polled_rest);
    let alone = on_postgres(scratch, &options, &queue(), samples, pause).await?;
    let mut figures = listening.figures("PgBouncer with listen_url");
    figures.extend(alone.figures("PgBouncer alone"));
    Ok(figures)
}

async fn on_postgres(
    scratch: &Scratch,
    options: &PostgresOptions,
    queue: &QueueName,
    samples: u32,
    pause: Duration,
) -> Result<Times> {
    let wakes = options.pooler == Pooler::Session || options.listen_url.is_some();
    let store = Arc::new(PostgresStore::connect(options).await?);
    let mut timed = TimingWorker::start(store, queue, wakes);
    let mut producer = scratch.connect().await?;
    let mut times = Times::default();
    for _ in 0..samples {
        rest(pause).await;
        times.add(sample(&mut producer, &mut timed, queue).await?);
    }
    timed.end().await;
    Ok(times)
}

/// Enqueues as a program would, in a transaction of its own work.
pub(super) async fn sample(
    producer: &mut PgConnection,
    timed: &mut TimingWorker,
    queue: &QueueName,
) -> Result<Duration> {
    sqlx::raw_sql("BEGIN").execute(&mut *producer).await?;
    sqlx::query("SELECT consign.enqueue($1, $2)")
        .bind(queue.as_str())
        .bind(sqlx::types::Json(payload()))
        .execute(&mut *producer)
        .await?;
    let committed = Instant::now();
    sqlx::raw_sql("COMMIT").execute(producer).await?;
    timed.since(committed).await
}

/// Producer and worker in one process, on one store.
async fn on_sqlite(plan: &Plan) -> Result<Vec<Figure>> {
    let directory = sqlite::directory(&plan.directory)?;
    let store = sqlite::open(directory.path(), "pickup.db").await?;
    let mut timed = TimingWorker::start(store.clone(), &queue(), true);
    let (mut from_answer, mut from_call) = (Times::default(), Times::default());
    for _ in 0..plan.counts.pickups {
        rest(REST).await;
        let called = Instant::now();
        store
            .enqueue(&[NewMessage::new(queue(), payload())])
            .await?;
        let answered = Instant::now();
        let took = timed.since(called).await?;
        from_call.add(took);
        // A delivery may start before the producer receives the reply to its commit.
        from_answer.add(took.saturating_sub(answered - called));
    }
    timed.end().await;
    let mut figures = from_answer.figures("SQLite");
    let median = figures.remove(0);
    figures.insert(0, median.target(Measure::Value, Bound::AtMost, 2.0));
    figures.extend(from_call.figures("SQLite, commit included"));
    Ok(figures)
}
