//! Heartbeats, queue stats, and whether the store is sound.

use async_trait::async_trait;
use consign_kernel::{
    Finding, Heartbeat, NOT_CHECKED, OutcomeCounts, Process, QueueMinutes, QueueName, QueueStats,
    Result, STATS_STEP_MAX, Watch,
};
use sqlx::postgres::PgRow;

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
        let sql = "SELECT consign.heartbeat($1, $2, $3, $4, $5, $6, $7, $8, $9)";
        let statement = sqlx::query(sql)
            .bind(&heartbeat.process)
            .bind(&heartbeat.version)
            .bind(rows::interval(heartbeat.running_for))
            .bind(queues)
            .bind(numbers(|done| done.delivered))
            .bind(numbers(|done| done.retried))
            .bind(numbers(|done| done.dead))
            .bind(numbers(|done| done.uncertain))
            .bind(numbers(|done| done.took_ms));
        self.fetch_as(Use::Probe, "record a heartbeat", statement)
            .await
            .map(drop)
    }

    async fn queue_stats(
        &self,
        queue: Option<&QueueName>,
        minutes: u32,
        step: u32,
    ) -> Result<Vec<QueueMinutes>> {
        let statement = sqlx::query(include_str!("../sql/queue_stats.sql"))
            .bind(queue.map(QueueName::as_str))
            .bind(i64::from(minutes))
            .bind(i64::from(step.clamp(1, STATS_STEP_MAX)));
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

fn minutes_of(row: &PgRow) -> Result<QueueMinutes> {
    Ok(QueueMinutes {
        queue: rows::queue_name(row, "queue")?,
        minute: rows::time(row, "minute")?,
        done: OutcomeCounts {
            delivered: rows::count(row, "delivered")?,
            retried: rows::count(row, "retried")?,
            dead: rows::count(row, "dead")?,
            uncertain: rows::count(row, "uncertain")?,
            took_ms: rows::count(row, "took_ms")?,
        },
    })
}

fn process(row: &PgRow) -> Result<Process> {
    let queues: Vec<String> = rows::column(row, "queues")?;
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
    })
}
