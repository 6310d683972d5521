//! How late delayed messages, retries and the next of a group are delivered on idle queues.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use anyhow::{Context, Result};
use async_trait::async_trait;
use consign_kernel::{By, Outcome, QueueName, QueuePolicy, prelude::*};
use consign_postgres::{PostgresOptions, PostgresStore};
use consign_worker::{
    About, Delivery, QueueWork, Sink, Verdict, Worker, WorkerHandle, WorkerOptions,
};
use sqlx::PgConnection;
use tokio::{
    sync::{
        Mutex as AsyncMutex,
        mpsc::{self, UnboundedReceiver, UnboundedSender},
    },
    time::{Instant, timeout},
};

use super::super::pickup::{Times, rest};
use crate::scratch::Scratch;

const DELAY: Duration = Duration::from_millis(200);
/// Until the worker sleeps again.
const REST: Duration = Duration::from_millis(30);
const PATIENCE: Duration = Duration::from_secs(30);

/// A worker of three queues whose sink notes when it was called.
pub(super) struct TimedWorker {
    worker: WorkerHandle,
    producer: AsyncMutex<PgConnection>,
    starts: AsyncMutex<UnboundedReceiver<Instant>>,
}

impl TimedWorker {
    pub(super) async fn start(scratch: &Scratch) -> Result<Self> {
        let store = Arc::new(PostgresStore::connect(&PostgresOptions::new(scratch.url())).await?);
        let (sender, starts) = mpsc::unbounded_channel();
        let mut work = Vec::new();
        for name in ["delayed", "retried", "ordered"] {
            let queue: QueueName = name.parse()?;
            let policy = QueuePolicy {
                ordered: name == "ordered",
                ..QueuePolicy::default()
            };
            let by = By::new("bench", "a queue to measure");
            store.put_queue(&queue, &policy, &by).await?;
            let sink = TimingSink {
                starts: sender.clone(),
                fails_first: name == "retried",
                failed: Mutex::default(),
            };
            work.push(QueueWork::new(queue, Arc::new(sink)));
        }
        Ok(Self {
            worker: Worker::start(store, work, WorkerOptions::new("bench")),
            producer: AsyncMutex::new(scratch.connect().await?),
            starts: AsyncMutex::new(starts),
        })
    }

    pub(super) async fn delayed(&self, count: u32) -> Result<Times> {
        let mut times = Times::default();
        for _ in 0..count {
            rest(REST).await;
            let enqueued = Instant::now();
            self.run("SELECT consign.enqueue('delayed', '1', p_delay => '200 milliseconds')")
                .await?;
            // The due time lies within the call: at its beginning it is early by a little.
            times.add(
                self.start_of_delivery()
                    .await?
                    .duration_since(enqueued + DELAY),
            );
        }
        Ok(times)
    }

    pub(super) async fn retried(&self, count: u32) -> Result<Times> {
        let mut times = Times::default();
        for _ in 0..count {
            rest(REST).await;
            self.run("SELECT consign.enqueue('retried', '1')").await?;
            let failed = self.start_of_delivery().await?;
            // The delay runs from the settle, which is recorded some milliseconds later.
            times.add(
                self.start_of_delivery()
                    .await?
                    .duration_since(failed + DELAY),
            );
        }
        Ok(times)
    }

    pub(super) async fn next_of_group(&self, count: u32) -> Result<Times> {
        let mut times = Times::default();
        let sql = include_str!("../../../sql/fill_group.sql");
        sqlx::query(sql)
            .bind(i32::try_from(count)? + 1)
            .execute(&mut *self.producer.lock().await)
            .await
            .context("fill a group")?;
        let mut last = self.start_of_delivery().await?;
        for _ in 0..count {
            let next = self.start_of_delivery().await?;
            times.add(next.duration_since(last));
            last = next;
        }
        Ok(times)
    }

    pub(super) async fn end(self) {
        self.worker.drain();
        self.worker.finished().await;
    }

    async fn run(&self, sql: &'static str) -> Result<()> {
        let mut producer = self.producer.lock().await;
        sqlx::raw_sql(sql).execute(&mut *producer).await?;
        Ok(())
    }

    async fn start_of_delivery(&self) -> Result<Instant> {
        let mut starts = self.starts.lock().await;
        let start = timeout(PATIENCE, starts.recv()).await;
        start
            .context("nothing was delivered")?
            .context("the worker is gone")
    }
}

#[derive(Debug)]
struct TimingSink {
    starts: UnboundedSender<Instant>,
    /// Whether every other delivery fails, to be tried again.
    fails_first: bool,
    failed: Mutex<bool>,
}

#[async_trait]
impl Sink for TimingSink {
    fn kind(&self) -> &'static str {
        "noting"
    }

    fn destination(&self) -> &str {
        "the benchmark"
    }

    async fn deliver(&self, _delivery: &Delivery) -> Verdict {
        self.starts.send(Instant::now()).unwrap_or_default();
        let mut failed = self
            .failed
            .lock()
            .expect("invariant: no panic under this lock");
        *failed = self.fails_first && !*failed;
        if *failed {
            Verdict::failed(Outcome::Retry, About::Message, "not_yet", "")
                .with_retry_in(Some(DELAY))
        } else {
            Verdict::delivered()
        }
    }
}
