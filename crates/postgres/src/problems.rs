//! What needs an operator, and what operators acknowledged.

use async_trait::async_trait;
use consign_kernel::{
    ACKNOWLEDGEMENTS_MAX, ATTENTION_MAX, Acknowledgement, Attention, By, ProblemMark, Problems,
    QueueName, Result,
};
use sqlx::types::Json;

use crate::{PostgresStore, pools::Use, rows};

#[async_trait]
impl Problems for PostgresStore {
    async fn attention(&self) -> Result<Attention> {
        let statement = sqlx::query(include_str!("../sql/attention.sql"))
            .bind(i64::from(ATTENTION_MAX))
            .bind(i64::from(ACKNOWLEDGEMENTS_MAX));
        let rows = self
            .read_as(Use::Report, "read what needs an operator", statement)
            .await?;
        let Json(attention) = rows::column(rows::only(&rows)?, "attention")?;
        Ok(attention)
    }

    async fn acknowledge(&self, mark: &ProblemMark, by: &By) -> Result<Acknowledgement> {
        by.validate()?;
        mark.validate()?;
        by.of_problem(&mark.problem)?;
        let sql = "SELECT at, until FROM consign.acknowledge($1, $2, $3, $4, $5, $6)";
        let statement = sqlx::query(sql)
            .bind(&mark.problem)
            .bind(mark.severity.as_str())
            .bind(mark.queue.as_ref().map(QueueName::as_str))
            .bind(rows::interval(mark.lasts))
            .bind(&by.actor)
            .bind(&by.reason);
        let rows = self.fetch("acknowledge a problem", statement).await?;
        let row = rows::only(&rows)?;
        Ok(Acknowledgement {
            problem: mark.problem.clone(),
            severity: mark.severity,
            at: rows::time(row, "at")?,
            until: rows::time(row, "until")?,
            actor: by.actor.clone(),
            reason: by.reason.clone(),
        })
    }

    async fn reopen(&self, problem: &str, by: &By) -> Result<bool> {
        by.validate()?;
        by.of_problem(problem)?;
        let statement = sqlx::query("SELECT consign.reopen($1, $2, $3) AS reopened")
            .bind(problem)
            .bind(&by.actor)
            .bind(&by.reason);
        let rows = self.fetch("reopen a problem", statement).await?;
        rows::column(rows::only(&rows)?, "reopened")
    }
}
