//! Alerts: recording an open breaker, and enqueueing what is due.

use async_trait::async_trait;
use consign_kernel::{Alert, AlertStep, Alerts, QueueName, RefusedAlert, Result, alert_code};
use serde::de::DeserializeOwned;
use sqlx::{postgres::PgRow, types::Json};

use crate::{PostgresStore, rows};

#[async_trait]
impl Alerts for PostgresStore {
    async fn record_breaker_open(&self, queue: &QueueName, code: Option<&str>) -> Result<()> {
        let statement = sqlx::query("SELECT consign.record_breaker_open($1, $2)")
            .bind(queue.as_str())
            .bind(alert_code(code));
        self.fetch("record an open breaker", statement).await?;
        Ok(())
    }

    async fn step_alerts(&self, limit: u32) -> Result<AlertStep> {
        AlertStep::validate(limit)?;
        let statement = sqlx::query("SELECT * FROM consign.step_alerts($1)").bind(limit as i32);
        let rows = self.fetch("step the alerts", statement).await?;
        let row = rows::only(&rows)?;
        Ok(AlertStep {
            events: rows::count(row, "events")?,
            raised: list::<Alert>(row, "raised")?,
            refused: list::<RefusedAlert>(row, "refused")?,
        })
    }
}

fn list<T: DeserializeOwned>(row: &PgRow, column: &'static str) -> Result<Vec<T>> {
    let value: Json<serde_json::Value> = rows::column(row, column)?;
    serde_json::from_value(value.0).map_err(|error| rows::corrupt(format!("{column}: {error}")))
}
