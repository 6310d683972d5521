//! Heartbeats, queue stats, and whether the store is sound.

use async_trait::async_trait;
use consign_kernel::{
    Backlog, BreakerReport, Finding, Heartbeat, LATENCY_BUCKETS, NOT_CHECKED, OutcomeCounts,
    Process, ProcessBreaker, QueueMinutes, QueueName, QueueStats, Result, STATS_STEP_MAX, Watch,
};
use sqlx::{postgres::PgRow, types::Json};

use crate::{PostgresStore, pools::Use, rows};

#[async_trait]
impl Watch for PostgresStore {
    async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<()> {
        heartbeat.validate()?;
        let queues: Vec<&str> = heartbeat
            .queues
            .iter()
            .map(|done| done.queue.as_str())
            .collect();
        let numbers = |number: fn(&OutcomeCounts) -> u64| -> Vec<i64> {
            let number = |queue: &QueueStats| number(&queue.done) as i64;
            heartbeat.queues.iter().map(number).collect()
        };
        let latency: Vec<i64> = (heartbeat.queues.iter())
            .flat_map(|queue| queue.done.latency.map(|results| results as i64))
            .collect();
        let breakers: Vec<_> = heartbeat.breakers.iter().map(breaker).collect();
        let sql = "SELECT consign.heartbeat($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";
        let statement = sqlx::query(sql)
            .bind(&heartbeat.process)
            .bind(&heartbeat.version)
            .bind(rows::interval(heartbeat.running_for))
            .bind(queues)
            .bind(numbers(|done| done.delivered))
            .bind(numbers(|done| done.retried))
            .bind(numbers(|done| done.dead))
            .bind(numbers(|done| done.uncertain))
            .bind(numbers(|done| done.took_ms))
            .bind(latency)
            .bind(Json(breakers))
            .bind(heartbeat.is_last);
        self.fetch_as(Use::Probe, "record a heartbeat", statement)
            .await
            .map(drop)
    }

    async fn sample_backlog(&self) -> Result<()> {
        let statement = sqlx::query("SELECT consign.sample_backlog()");
        self.fetch_as(Use::Report, "sample the backlog", statement)
            .await
            .map(drop)
    }

    async fn queue_stats(
        &self,
        queue: Option<&QueueName>,
        minutes: u32,
        step: u32,
    ) -> Result<Vec<QueueMinutes>> {
        let step = step.clamp(1, STATS_STEP_MAX);
        let span: i16 = if step.is_multiple_of(60) { 60 } else { 1 };
        let statement = sqlx::query(include_str!("../sql/queue_stats.sql"))
            .bind(queue.map(QueueName::as_str))
            .bind(i64::from(minutes))
            .bind(i64::from(step))
            .bind(span);
        let rows = self
            .read_as(Use::Report, "read queue stats", statement)
            .await?;
        rows.iter().map(minutes_of).collect()
    }

    async fn processes(&self) -> Result<Vec<Process>> {
        let statement = sqlx::query(include_str!("../sql/processes.sql"));
        let rows = self.read("read the processes", statement).await?;
        rows.iter().map(process).collect()
    }

    async fn probe(&self) -> Result<()> {
        let statement = sqlx::query("SELECT FROM consign.queue WHERE name = 'default'");
        self.read_as(Use::Probe, "probe", statement).await.map(drop)
    }

    async fn doctor(&self) -> Result<Vec<Finding>> {
        let (mut findings, refused) = match self.findings().await {
            Ok(found) => found,
            Err(error) => return Err(self.advised(error.of_read()).await),
        };
        for (about, error) in refused {
            let why = self.advised(error).await;
            findings.push(Finding {
                code: NOT_CHECKED.to_owned(),
                what: format!("{about}: {why}"),
                remedy: "run doctor with a login in consign_auditor or consign_operator".to_owned(),
                ids: Vec::new(),
            });
        }
        Ok(findings)
    }
}

/// A breaker as the function takes it.
fn breaker(breaker: &BreakerReport) -> serde_json::Value {
    serde_json::json!({
        "queue": breaker.queue,
        "destination": breaker.destination,
        "state": breaker.state,
        "lasts_ms": u64::try_from(breaker.lasts.as_millis()).unwrap_or(u64::MAX).min(1 << 50),
    })
}

fn minutes_of(row: &PgRow) -> Result<QueueMinutes> {
    let latency: Vec<i64> = rows::column(row, "latency")?;
    let latency: Vec<u64> = latency.into_iter().map(i64::unsigned_abs).collect();
    Ok(QueueMinutes {
        queue: rows::queue_name(row, "queue")?,
        minute: rows::time(row, "minute")?,
        done: OutcomeCounts {
            delivered: rows::count(row, "delivered")?,
            retried: rows::count(row, "retried")?,
            dead: rows::count(row, "dead")?,
            uncertain: rows::count(row, "uncertain")?,
            took_ms: rows::count(row, "took_ms")?,
            latency: <[u64; LATENCY_BUCKETS]>::try_from(latency)
                .map_err(|_| rows::corrupt("the buckets of times"))?,
        },
        backlog: Backlog {
            due: rows::count(row, "due")?,
            oldest_ms: rows::count(row, "oldest_ms")?,
        },
    })
}

fn process(row: &PgRow) -> Result<Process> {
    let queues: Vec<String> = rows::column(row, "queues")?;
    let Json(breakers) = rows::column::<Json<Vec<ProcessBreaker>>>(row, "breakers")?;
    Ok(Process {
        name: rows::column(row, "name")?,
        version: rows::column(row, "version")?,
        started_at: rows::time(row, "started_at")?,
        seen_at: rows::time(row, "seen_at")?,
        queues: queues
            .iter()
            .map(|queue| {
                queue
                    .parse()
                    .map_err(|_| rows::corrupt("a queue of a process"))
            })
            .collect::<Result<_>>()?,
        breakers,
    })
}
