//! Queues and their policy.

use async_trait::async_trait;
use consign_kernel::{
    By, Counts, PAGE_ENTRIES_MAX, Queue, QueueName, QueuePolicy, Queues, Result, Totals,
};
use sqlx::{postgres::PgRow, types::Json};

use crate::{PostgresStore, pools::Use, rows};

#[async_trait]
impl Queues for PostgresStore {
    async fn put_queue(&self, name: &QueueName, policy: &QueuePolicy, by: &By) -> Result<Queue> {
        by.validate()?;
        policy.validate()?;
        let statement = sqlx::query("SELECT * FROM consign.put_queue($1, $2, $3, $4)")
            .bind(name.as_str())
            .bind(Json(policy))
            .bind(&by.actor)
            .bind(&by.reason);
        let rows = self.fetch("put queue", statement).await?;
        rows::queue(
            rows.first()
                .ok_or_else(|| rows::corrupt("put_queue answered nothing"))?,
        )
    }

    async fn pause(&self, name: &QueueName, by: &By) -> Result<Queue> {
        self.set_paused("SELECT * FROM consign.pause($1, $2, $3)", name, by)
            .await
    }

    async fn resume(&self, name: &QueueName, by: &By) -> Result<Queue> {
        self.set_paused("SELECT * FROM consign.resume($1, $2, $3)", name, by)
            .await
    }

    async fn queue(&self, name: &QueueName) -> Result<Option<Queue>> {
        let statement =
            sqlx::query("SELECT * FROM consign.queue WHERE name = $1 AND policy IS NOT NULL")
                .bind(name.as_str());
        let rows = self.read("read queue", statement).await?;
        rows.first().map(rows::queue).transpose()
    }

    async fn queues(&self, after: Option<&QueueName>, limit: u32) -> Result<Vec<(Queue, Counts)>> {
        let statement = sqlx::query(include_str!("../sql/queues.sql"))
            .bind(after.map(QueueName::as_str))
            .bind(i64::from(limit.min(PAGE_ENTRIES_MAX)));
        let rows = self.read_as(Use::Report, "read queues", statement).await?;
        let counted = |row| Ok((rows::queue(row)?, counts(row)?));
        rows.iter().map(counted).collect()
    }

    async fn queue_counts(&self, name: &QueueName) -> Result<Option<(Queue, Counts)>> {
        let statement = sqlx::query(include_str!("../sql/queue_counts.sql")).bind(name.as_str());
        let rows = self.read_as(Use::Report, "read queue", statement).await?;
        let counted = |row| Ok((rows::queue(row)?, counts(row)?));
        rows.first().map(counted).transpose()
    }

    async fn totals(&self) -> Result<Totals> {
        let statement = sqlx::query(include_str!("../sql/totals.sql"));
        let rows = self.read_as(Use::Report, "read queues", statement).await?;
        let row = rows::only(&rows)?;
        Ok(Totals {
            queues: rows::count(row, "queues")?,
            counts: counts(row)?,
        })
    }
}

impl PostgresStore {
    async fn set_paused(&self, function: &'static str, name: &QueueName, by: &By) -> Result<Queue> {
        by.validate()?;
        let statement = sqlx::query(function)
            .bind(name.as_str())
            .bind(&by.actor)
            .bind(&by.reason);
        let rows = self.fetch("pause or resume queue", statement).await?;
        rows::queue(
            rows.first()
                .ok_or_else(|| rows::corrupt("pause answered nothing"))?,
        )
    }
}

fn counts(row: &PgRow) -> Result<Counts> {
    Ok(Counts {
        waiting: rows::count(row, "waiting")?,
        ready: rows::count(row, "ready")?,
        scheduled: rows::count(row, "scheduled")?,
        leased: rows::count(row, "leased")?,
        held: rows::count(row, "held")?,
        dead: rows::count(row, "dead")?,
        oldest_due_at: rows::optional_time(row, "oldest_due_at")?,
    })
}
