//! Producers that commit as fast as they can.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use async_trait::async_trait;
use consign_kernel::QueueName;
use consign_postgres::{PostgresOptions, PostgresStore};
use consign_worker::{Delivery, QueueWork, Sink, Verdict, Worker, WorkerHandle, WorkerOptions};
use sqlx::{PgConnection, types::Json};
use tokio::task::{JoinHandle, JoinSet};

use super::super::{Plan, pickup::rest};
use crate::{scratch::Scratch, subject::payload};

pub(super) const PRODUCERS: u32 = 32;
/// How often a worker that is always asleep registers again.
const REGISTER_EVERY: Duration = Duration::from_millis(2);

/// In whose company producers commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Setting {
    Alone,
    BesideWorker,
    BesideSleeper,
    NotifyingAlways,
    WithoutTrigger,
}

impl Setting {
    pub(super) const ALL: [Self; 5] = [
        Self::Alone,
        Self::BesideWorker,
        Self::BesideSleeper,
        Self::NotifyingAlways,
        Self::WithoutTrigger,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Alone => "32 producers",
            Self::BesideWorker => "32 producers and a worker",
            Self::BesideSleeper => "32 producers and a worker that always sleeps",
            Self::NotifyingAlways => "  with NOTIFY in every transaction",
            Self::WithoutTrigger => "  without the trigger",
        }
    }

    pub(super) fn is_judged(self) -> bool {
        matches!(self, Self::Alone | Self::BesideWorker)
    }
}

/// Messages a second, with the queue's default policy or with `notify` off.
pub(super) async fn rate(
    plan: &Plan,
    scratch: &Scratch,
    setting: Setting,
    is_notifying: bool,
) -> Result<f64> {
    let queue: QueueName = if is_notifying { "default" } else { "quiet" }.parse()?;
    let company = match setting {
        Setting::BesideWorker => Some(Consumer::work(scratch, &queue).await?),
        Setting::BesideSleeper if is_notifying => Some(Consumer::resting(scratch, &queue).await?),
        _ => None,
    };
    let without_trigger = setting == Setting::WithoutTrigger && is_notifying;
    if without_trigger {
        scratch
            .run("ALTER TABLE consign.ready DISABLE TRIGGER wake")
            .await?;
    }
    let sql = match setting {
        Setting::NotifyingAlways if is_notifying => {
            "SELECT consign.enqueue($1, $2), pg_notify('consign_bench', $1)"
        }
        _ => "SELECT consign.enqueue($1, $2)",
    };
    let rate = produce(scratch, &queue, sql, plan.counts.wake).await;
    if without_trigger {
        scratch
            .run("ALTER TABLE consign.ready ENABLE TRIGGER wake")
            .await?;
    }
    if let Some(company) = company {
        company.end().await;
    }
    scratch.empty(&queue).await?;
    rate
}

async fn produce(
    scratch: &Scratch,
    queue: &QueueName,
    sql: &'static str,
    during: Duration,
) -> Result<f64> {
    let mut connections = Vec::new();
    for _ in 0..PRODUCERS {
        connections.push(scratch.connect().await?);
    }
    let mut producers = JoinSet::new();
    let started = Instant::now();
    for connection in connections {
        producers.spawn(enqueue(connection, queue.clone(), sql, started + during));
    }
    let mut messages = 0;
    for made in producers.join_all().await {
        messages += made?;
    }
    Ok(f64::from(messages) / started.elapsed().as_secs_f64())
}

async fn enqueue(
    mut connection: PgConnection,
    queue: QueueName,
    sql: &'static str,
    until: Instant,
) -> Result<u32> {
    let payload = Json(payload());
    let mut messages = 0;
    while Instant::now() < until {
        sqlx::query(sql)
            .bind(queue.as_str())
            .bind(&payload)
            .execute(&mut connection)
            .await
            .context("enqueue")?;
        messages += 1;
    }
    Ok(messages)
}

/// Who is on the other side.
enum Consumer {
    Worker(WorkerHandle),
    Sleeper(JoinHandle<()>),
}

impl Consumer {
    async fn work(scratch: &Scratch, queue: &QueueName) -> Result<Self> {
        let store = PostgresStore::connect(&PostgresOptions::new(scratch.url())).await?;
        let work = QueueWork::new(queue.clone(), Arc::new(NullSink));
        let options = WorkerOptions::new("bench");
        Ok(Self::Worker(Worker::start(
            Arc::new(store),
            vec![work],
            options,
        )))
    }

    async fn resting(scratch: &Scratch, queue: &QueueName) -> Result<Self> {
        let mut connection = scratch.connect().await?;
        let queue = queue.clone();
        Ok(Self::Sleeper(tokio::spawn(async move {
            loop {
                // As if nothing were due, which it is: it sleeps on.
                let sql = include_str!("../../../sql/sleep_on.sql");
                let slept = sqlx::query(sql)
                    .bind(queue.as_str())
                    .execute(&mut connection);
                if slept.await.is_err() {
                    return;
                }
                rest(REGISTER_EVERY).await;
            }
        })))
    }

    async fn end(self) {
        match self {
            Self::Worker(worker) => {
                worker.drain();
                worker.finished().await;
            }
            Self::Sleeper(sleeper) => sleeper.abort(),
        }
    }
}

#[derive(Debug)]
struct NullSink;

#[async_trait]
impl Sink for NullSink {
    fn kind(&self) -> &'static str {
        "taking"
    }

    fn destination(&self) -> &str {
        "the benchmark"
    }

    async fn deliver(&self, _delivery: &Delivery) -> Verdict {
        Verdict::delivered()
    }
}
