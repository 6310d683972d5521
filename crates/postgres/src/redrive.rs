//! Moving messages by filter, step by step.

use async_trait::async_trait;
use consign_kernel::{
    By, DeadLetter, MessageId, MessageSummary, PAGE_ENTRIES_MAX, QueueName, Redrive, RedriveAction,
    RedriveId, RedrivePlan, RedriveState, Redrives, Result,
};
use sqlx::postgres::PgRow;

use crate::{PostgresStore, read::dead_letter, rows, store::Statement};

#[async_trait]
impl Redrives for PostgresStore {
    async fn start_redrive(&self, plan: &RedrivePlan, by: &By) -> Result<Redrive> {
        RedrivePlan::validate_by(by)?;
        plan.validate()?;
        let statement =
            sqlx::query("SELECT * FROM consign.start_redrive($1, $2, $3, $4, $5, $6, $7)")
                .bind(&by.actor)
                .bind(&by.reason)
                .bind(plan.queue.as_ref().map(QueueName::as_str))
                .bind(&plan.code)
                .bind(plan.rate_per_second.map(i64::from))
                .bind(plan.limit.map(|limit| limit as i64))
                .bind(plan.action.as_str());
        self.one_redrive("start a redrive", statement).await
    }

    async fn step_redrive(&self, limit: u32) -> Result<Option<Redrive>> {
        Redrive::validate_step(limit)?;
        let statement = sqlx::query("SELECT * FROM consign.step_redrive($1)").bind(limit as i32);
        let rows = self.fetch("step a redrive", statement).await?;
        rows.first().map(redrive).transpose()
    }

    async fn stop_redrive(&self, id: RedriveId, by: &By) -> Result<Redrive> {
        self.set_redrive_state("SELECT * FROM consign.stop_redrive($1, $2, $3)", id, by)
            .await
    }

    async fn resume_redrive(&self, id: RedriveId, by: &By) -> Result<Redrive> {
        self.set_redrive_state("SELECT * FROM consign.resume_redrive($1, $2, $3)", id, by)
            .await
    }

    async fn first_dead(&self, plan: &RedrivePlan, limit: u32) -> Result<Vec<DeadLetter>> {
        if plan.action == RedriveAction::Cancel {
            return Ok(Vec::new());
        }
        let statement = sqlx::query(include_str!("../sql/first_dead.sql"))
            .bind(plan.queue.as_ref().map(QueueName::as_str))
            .bind(plan.code.as_deref())
            .bind(i64::from(plan.shown(limit)))
            .bind(plan.action == RedriveAction::Discard);
        let rows = self.read("list what a redrive would take", statement);
        rows.await?.iter().map(dead_letter).collect()
    }

    async fn first_open(&self, plan: &RedrivePlan, limit: u32) -> Result<Vec<MessageSummary>> {
        match plan.cancelled_queue() {
            Some(queue) => self.list_open(queue, plan.shown(limit)).await,
            None => Ok(Vec::new()),
        }
    }

    async fn redrive(&self, id: RedriveId) -> Result<Option<Redrive>> {
        let statement = sqlx::query("SELECT * FROM consign.redrive WHERE id = $1").bind(id.0);
        let rows = self.read("read a redrive", statement).await?;
        rows.first().map(redrive).transpose()
    }

    async fn redrives(&self, limit: u32) -> Result<Vec<Redrive>> {
        let statement = sqlx::query("SELECT * FROM consign.redrive ORDER BY id DESC LIMIT $1")
            .bind(i64::from(limit.min(PAGE_ENTRIES_MAX)));
        let rows = self.read("list redrives", statement).await?;
        rows.iter().map(redrive).collect()
    }
}

impl PostgresStore {
    async fn set_redrive_state(
        &self,
        function: &'static str,
        id: RedriveId,
        by: &By,
    ) -> Result<Redrive> {
        RedrivePlan::validate_by(by)?;
        let statement = sqlx::query(function)
            .bind(id.0)
            .bind(&by.actor)
            .bind(&by.reason);
        self.one_redrive("stop or resume a redrive", statement)
            .await
    }

    async fn one_redrive(
        &self,
        attempted: &'static str,
        statement: Statement<'_>,
    ) -> Result<Redrive> {
        let rows = self.fetch(attempted, statement).await?;
        let row = rows.first();
        redrive(row.ok_or_else(|| rows::corrupt("a redrive answered nothing"))?)
    }
}

fn redrive(row: &PgRow) -> Result<Redrive> {
    let word: &str = rows::column(row, "state")?;
    let rate: Option<i64> = rows::column(row, "rate_per_second")?;
    let rate = rate.map(u32::try_from).transpose();
    let limit: Option<i64> = rows::column(row, "at_most")?;
    let cursor: Option<i64> = rows::column(row, "cursor")?;
    Ok(Redrive {
        id: RedriveId(rows::column(row, "id")?),
        plan: RedrivePlan {
            action: rows::word(row, "action")?,
            queue: rows::optional_queue_name(row, "queue")?,
            code: rows::column(row, "code")?,
            rate_per_second: rate.map_err(|_| rows::corrupt("a rate is out of range"))?,
            limit: limit.map(i64::unsigned_abs),
        },
        state: RedriveState::from_word(word)
            .ok_or_else(|| rows::corrupt(format!("state {word:?}")))?,
        total: rows::count(row, "total")?,
        moved: rows::count(row, "moved")?,
        skipped: rows::count(row, "skipped")?,
        cursor: cursor.map(MessageId),
        by: By {
            actor: rows::column(row, "actor")?,
            reason: rows::column(row, "reason")?,
        },
        started_at: rows::time(row, "started_at")?,
        updated_at: rows::time(row, "updated_at")?,
        finished_at: rows::optional_time(row, "finished_at")?,
    })
}
