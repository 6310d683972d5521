//! Queues and their policy.

use consign_kernel::{By, Counts, PAGE_ENTRIES_MAX, Queue, QueueName, QueuePolicy, Result, Totals};
use sqlx::{postgres::PgRow, types::Json};

use crate::{PostgresStore, pools::Use, rows};

impl PostgresStore {
    pub(crate) async fn put_queue_impl(
        &self,
        name: &QueueName,
        policy: &QueuePolicy,
        by: &By,
    ) -> Result<Queue> {
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

    pub(crate) async fn queue_impl(&self, name: &QueueName) -> Result<Option<Queue>> {
        let statement =
            sqlx::query("SELECT * FROM consign.queue WHERE name = $1").bind(name.as_str());
        let rows = self.read("read queue", statement).await?;
        rows.first().map(rows::queue).transpose()
    }

    pub(crate) async fn may_work_impl(&self, name: &QueueName) -> Result<bool> {
        let statement = sqlx::query("SELECT consign.may_work($1) AS may_work").bind(name.as_str());
        let rows = self.read("read the grants of a queue", statement).await?;
        rows::column(rows::only(&rows)?, "may_work")
    }

    pub(crate) async fn queues_impl(
        &self,
        after: Option<&QueueName>,
        limit: u32,
    ) -> Result<Vec<(Queue, Counts)>> {
        let statement = sqlx::query(include_str!("../sql/queues.sql"))
            .bind(after.map(QueueName::as_str))
            .bind(i64::from(limit.min(PAGE_ENTRIES_MAX)));
        let rows = self.read_as(Use::Report, "read queues", statement).await?;
        let counted = |row| Ok((rows::queue(row)?, counts(row)?));
        rows.iter().map(counted).collect()
    }

    pub(crate) async fn queue_counts_impl(
        &self,
        name: &QueueName,
    ) -> Result<Option<(Queue, Counts)>> {
        let statement = sqlx::query(include_str!("../sql/queue_counts.sql")).bind(name.as_str());
        let rows = self.read_as(Use::Report, "read queue", statement).await?;
        let counted = |row| Ok((rows::queue(row)?, counts(row)?));
        rows.first().map(counted).transpose()
    }

    pub(crate) async fn totals_impl(&self) -> Result<Totals> {
        let statement = sqlx::query(include_str!("../sql/totals.sql"));
        let rows = self.read_as(Use::Report, "read queues", statement).await?;
        let row = rows::only(&rows)?;
        Ok(Totals {
            queues: rows::count(row, "queues")?,
            counts: counts(row)?,
        })
    }

    pub(crate) async fn set_paused(
        &self,
        function: &'static str,
        name: &QueueName,
        by: &By,
    ) -> Result<Queue> {
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
