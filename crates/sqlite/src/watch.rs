//! Heartbeats, queue stats, and whether the store is sound.

use async_trait::async_trait;
use consign_kernel::{
    Finding, Heartbeat, OutcomeCounts, PROCESSES_KEPT, Process, QueueMinutes, QueueName,
    STATS_RETENTION, STATS_STEP_MAX, Watch,
};
use jiff::Timestamp;
use sqlx::SqliteConnection;

use crate::{
    SqliteStore, doctor,
    error::{Failure, Result},
    job::Work,
    queues, rows, sql,
    store::{Inner, snapshot, write},
};

const MINUTE_MICROS: i64 = 60_000_000;

#[async_trait]
impl Watch for SqliteStore {
    async fn heartbeat(&self, heartbeat: &Heartbeat) -> consign_kernel::Result<()> {
        write!(self, "record a heartbeat", (heartbeat), |work| work
            .heartbeat(&heartbeat))
    }

    async fn queue_stats(
        &self,
        queue: Option<&QueueName>,
        minutes: u32,
        step: u32,
    ) -> consign_kernel::Result<Vec<QueueMinutes>> {
        let now = self.now();
        snapshot!(self, "read queue stats", |tx| queue_stats(
            &mut tx, now, queue, minutes, step
        ))
    }

    async fn processes(&self) -> consign_kernel::Result<Vec<Process>> {
        let now = self.now();
        snapshot!(self, "read the processes", |tx| processes(&mut tx, now))
    }

    async fn probe(&self) -> consign_kernel::Result<()> {
        let default = "default".parse()?;
        snapshot!(self, "probe", |tx| queues::queue(&mut tx, &default)).map(drop)
    }

    async fn doctor(&self) -> consign_kernel::Result<Vec<Finding>> {
        let Inner {
            clock, components, ..
        } = &*self.inner;
        let now = clock.now();
        snapshot!(self, "doctor", |tx| doctor::examine(
            &mut tx, now, components
        ))
    }
}

impl Work<'_> {
    /// Records a process, and adds what it did to the current minute.
    pub(crate) async fn heartbeat(&mut self, heartbeat: &Heartbeat) -> Result<()> {
        heartbeat.validate()?;
        let now = rows::micros(self.now);
        let running_for = i64::try_from(heartbeat.running_for.as_micros()).unwrap_or(i64::MAX);
        let mut queues: Vec<&str> = heartbeat
            .queues
            .iter()
            .map(|done| done.queue.as_str())
            .collect();
        queues.sort_unstable();
        queues.dedup();
        sqlx::query(sql!("process_put"))
            .bind(&heartbeat.process)
            .bind(&heartbeat.version)
            .bind(now.saturating_sub(running_for))
            .bind(now)
            .bind(rows::json(&queues))
            .execute(&mut *self.connection)
            .await?;
        for queue in heartbeat
            .queues
            .iter()
            .filter(|queue| queue.done != OutcomeCounts::default())
        {
            sqlx::query(sql!("queue_stats_add"))
                .bind(now - now.rem_euclid(MINUTE_MICROS))
                .bind(queue.queue.as_str())
                .bind(queue.done.delivered as i64)
                .bind(queue.done.retried as i64)
                .bind(queue.done.dead as i64)
                .bind(queue.done.uncertain as i64)
                .bind(queue.done.took_ms as i64)
                .execute(&mut *self.connection)
                .await?;
        }
        sqlx::query(sql!("queue_stats_forget"))
            .bind(since(self.now))
            .execute(&mut *self.connection)
            .await?;
        sqlx::query(sql!("process_forget"))
            .bind(since(self.now))
            .bind(PROCESSES_KEPT as i64)
            .execute(&mut *self.connection)
            .await?;
        Ok(())
    }
}

/// Since when heartbeats are kept.
fn since(now: Timestamp) -> i64 {
    rows::micros(now) - STATS_RETENTION.as_micros() as i64
}

pub(crate) async fn queue_stats(
    connection: &mut SqliteConnection,
    now: Timestamp,
    queue: Option<&QueueName>,
    minutes: u32,
    step: u32,
) -> Result<Vec<QueueMinutes>> {
    let now = rows::micros(now);
    let this = now - now.rem_euclid(MINUTE_MICROS);
    type Columns = (String, i64, i64, i64, i64, i64, i64);
    let found: Vec<Columns> = sqlx::query_as(sql!("queue_stats_list"))
        .bind(queue.map(QueueName::as_str))
        .bind(this - (i64::from(minutes) - 1) * MINUTE_MICROS)
        .bind(i64::from(step.clamp(1, STATS_STEP_MAX)) * MINUTE_MICROS)
        .fetch_all(connection)
        .await?;
    let count = |number: i64| {
        let corrupt = |_| Failure::corrupt(format!("{number} results in a minute"));
        u64::try_from(number).map_err(corrupt)
    };
    let minutes = |(queue, minute, delivered, retried, dead, uncertain, took_ms): Columns| {
        Ok(QueueMinutes {
            queue: rows::queue_name(&queue)?,
            minute: rows::timestamp(minute)?,
            done: OutcomeCounts {
                delivered: count(delivered)?,
                retried: count(retried)?,
                dead: count(dead)?,
                uncertain: count(uncertain)?,
                took_ms: count(took_ms)?,
            },
        })
    };
    found.into_iter().map(minutes).collect()
}

pub(crate) async fn processes(
    connection: &mut SqliteConnection,
    now: Timestamp,
) -> Result<Vec<Process>> {
    type Columns = (String, String, i64, i64, String);
    let found: Vec<Columns> = sqlx::query_as(sql!("process_list"))
        .bind(since(now))
        .fetch_all(connection)
        .await?;
    let process = |(name, version, started_at, seen_at, queues): Columns| {
        Ok(Process {
            name,
            version,
            started_at: rows::timestamp(started_at)?,
            seen_at: rows::timestamp(seen_at)?,
            queues: rows::document(&queues)?,
        })
    };
    found.into_iter().map(process).collect()
}
