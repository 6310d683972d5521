//! Heartbeats, queue stats, and whether the store is sound.

use async_trait::async_trait;
use consign_kernel::{
    Backlog, Finding, HOURS_RETENTION, Heartbeat, LATENCY_BUCKETS, OutcomeCounts, PROCESSES_KEPT,
    Process, QueueMinutes, QueueName, QueueStats, SAMPLED_QUEUES_MAX, STATS_RETENTION,
    STATS_STEP_MAX, Watch,
};
use jiff::Timestamp;
use sqlx::{Row as _, SqliteConnection, sqlite::SqliteRow};

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

    async fn sample_backlog(&self) -> consign_kernel::Result<()> {
        // Counted beside the writers: under their lock, a long count would hold them up.
        let now = self.now();
        let due = snapshot!(self, "sample the backlog", |tx| due(&mut tx, now))?;
        if due.is_empty() {
            return Ok(());
        }
        write!(self, "sample the backlog", (due), |work| work
            .record_backlog(&due))
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
    /// Records a process, and adds what it did to the current minute and hour.
    pub(crate) async fn heartbeat(&mut self, heartbeat: &Heartbeat) -> Result<()> {
        heartbeat.validate()?;
        let process = Process::at(self.now, heartbeat);
        sqlx::query(sql!("process_put"))
            .bind(&process.name)
            .bind(&process.version)
            .bind(rows::micros(process.started_at))
            .bind(rows::micros(process.seen_at))
            .bind(rows::json(&process.queues))
            .bind(rows::json(&process.breakers))
            .execute(&mut *self.connection)
            .await?;
        for QueueStats { queue, done } in &heartbeat.queues {
            if *done != OutcomeCounts::default() {
                self.add_stats(queue, done).await?;
            }
        }
        let now = rows::micros(self.now);
        sqlx::query(sql!("queue_stats_forget"))
            .bind(since(self.now))
            .bind(now - HOURS_RETENTION.as_micros() as i64)
            .execute(&mut *self.connection)
            .await?;
        sqlx::query(sql!("process_forget"))
            .bind(since(self.now))
            .bind(PROCESSES_KEPT as i64)
            .execute(&mut *self.connection)
            .await?;
        Ok(())
    }

    async fn add_stats(&mut self, queue: &QueueName, done: &OutcomeCounts) -> Result<()> {
        let counts = [
            done.delivered,
            done.retried,
            done.dead,
            done.uncertain,
            done.took_ms,
        ];
        for span in SPANS {
            let mut statement = sqlx::query(sql!("queue_stats_add"))
                .bind(span)
                .bind(begin(self.now, span))
                .bind(queue.as_str());
            for count in counts.into_iter().chain(done.latency) {
                statement = statement.bind(count as i64);
            }
            statement.execute(&mut *self.connection).await?;
        }
        Ok(())
    }

    /// Records what was due, unless another process did in this minute.
    async fn record_backlog(&mut self, due: &[(String, Backlog)]) -> Result<()> {
        if is_sampled(self.connection, self.now).await? {
            return Ok(());
        }
        for ((queue, backlog), span) in due.iter().flat_map(|due| SPANS.map(|span| (due, span))) {
            sqlx::query(sql!("backlog_put"))
                .bind(span)
                .bind(begin(self.now, span))
                .bind(queue)
                .bind(backlog.due as i64)
                .bind(backlog.oldest_ms as i64)
                .execute(&mut *self.connection)
                .await?;
        }
        Ok(())
    }
}

/// The spans that stats are kept by, in minutes.
const SPANS: [i64; 2] = [1, 60];

/// The beginning of the span of so many minutes that a time is in.
fn begin(at: Timestamp, span: i64) -> i64 {
    let at = rows::micros(at);
    at - at.rem_euclid(span * MINUTE_MICROS)
}

/// Since when heartbeats are kept.
fn since(now: Timestamp) -> i64 {
    rows::micros(now) - STATS_RETENTION.as_micros() as i64
}

async fn is_sampled(connection: &mut SqliteConnection, now: Timestamp) -> Result<bool> {
    let (is_sampled,): (bool,) = sqlx::query_as(sql!("backlog_is_sampled"))
        .bind(begin(now, 1))
        .fetch_one(connection)
        .await?;
    Ok(is_sampled)
}

/// What is due in every queue; nothing if it was recorded in this minute.
async fn due(connection: &mut SqliteConnection, now: Timestamp) -> Result<Vec<(String, Backlog)>> {
    if is_sampled(connection, now).await? {
        return Ok(Vec::new());
    }
    let now = rows::micros(now);
    let found: Vec<(String, i64, i64)> = sqlx::query_as(sql!("backlog_due"))
        .bind(now)
        .bind(SAMPLED_QUEUES_MAX)
        .fetch_all(connection)
        .await?;
    let backlog = |(queue, due, oldest_due_at): (String, i64, i64)| {
        let backlog = Backlog {
            due: due.unsigned_abs(),
            oldest_ms: (now - oldest_due_at).unsigned_abs() / 1_000,
        };
        (queue, backlog)
    };
    Ok(found.into_iter().map(backlog).collect())
}

pub(crate) async fn queue_stats(
    connection: &mut SqliteConnection,
    now: Timestamp,
    queue: Option<&QueueName>,
    minutes: u32,
    step: u32,
) -> Result<Vec<QueueMinutes>> {
    let step = i64::from(step.clamp(1, STATS_STEP_MAX));
    let span = if step % 60 == 0 { 60 } else { 1 };
    let since = begin(now, 1) - (i64::from(minutes) - 1) * MINUTE_MICROS;
    let found = sqlx::query(sql!("queue_stats_list"))
        .bind(queue.map(QueueName::as_str))
        .bind(since - since.rem_euclid(span * MINUTE_MICROS))
        .bind(step * MINUTE_MICROS)
        .bind(span)
        .fetch_all(connection)
        .await?;
    found.iter().map(minutes_of).collect()
}

fn minutes_of(row: &SqliteRow) -> Result<QueueMinutes> {
    let count = |column: usize| {
        let number: i64 = row.try_get(column)?;
        let corrupt = |_| Failure::corrupt(format!("{number} results in a minute"));
        u64::try_from(number).map_err(corrupt)
    };
    let mut latency = [0; LATENCY_BUCKETS];
    for (bucket, results) in latency.iter_mut().enumerate() {
        *results = count(7 + bucket)?;
    }
    Ok(QueueMinutes {
        queue: rows::queue_name(row.try_get(0)?)?,
        minute: rows::timestamp(row.try_get(1)?)?,
        done: OutcomeCounts {
            delivered: count(2)?,
            retried: count(3)?,
            dead: count(4)?,
            uncertain: count(5)?,
            took_ms: count(6)?,
            latency,
        },
        backlog: Backlog {
            due: count(7 + LATENCY_BUCKETS)?,
            oldest_ms: count(8 + LATENCY_BUCKETS)?,
        },
    })
}

pub(crate) async fn processes(
    connection: &mut SqliteConnection,
    now: Timestamp,
) -> Result<Vec<Process>> {
    type Columns = (String, String, i64, i64, String, String);
    let found: Vec<Columns> = sqlx::query_as(sql!("process_list"))
        .bind(since(now))
        .fetch_all(connection)
        .await?;
    let process = |(name, version, started_at, seen_at, queues, breakers): Columns| {
        Ok(Process {
            name,
            version,
            started_at: rows::timestamp(started_at)?,
            seen_at: rows::timestamp(seen_at)?,
            queues: rows::document(&queues)?,
            breakers: rows::document(&breakers)?,
        })
    };
    found.into_iter().map(process).collect()
}
