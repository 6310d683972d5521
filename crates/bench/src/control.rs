//! The control: the usual design, a row per message, on the same server and with the same driver.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use sqlx::{Connection, PgConnection, Row, types::Json};

use crate::{
    backend::Backend,
    drain::{WorkStep, Worker},
    subject::payload,
};

/// Its queue; it has only one.
pub(crate) const QUEUE: &str = "default";
const OWNER: &str = "bench-worker-1";

/// What keeps the planner to index scans and nested loops; consign's functions set the same.
const PLANNER: &str =
    "SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_seqscan = off";

/// A worker of the control, on a connection of its own with prepared statements.
pub(crate) struct ControlWorker {
    connection: PgConnection,
}

impl ControlWorker {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        let mut connection = PgConnection::connect(url).await?;
        sqlx::raw_sql(PLANNER).execute(&mut connection).await?;
        Ok(Self { connection })
    }

    /// Enqueues `messages`, `batch` per transaction.
    pub(crate) async fn enqueue(&mut self, messages: u32, batch: u32) -> Result<()> {
        let payload = payload();
        let mut left = messages;
        while left > 0 {
            let size = left.min(batch);
            let payloads: Vec<Json<&Value>> = (0..size).map(|_| Json(&payload)).collect();
            let rows = sqlx::query(include_str!("../sql/control_enqueue.sql"))
                .bind(QUEUE)
                .bind(payloads)
                .fetch_all(&mut self.connection)
                .await
                .context("control: enqueue")?;
            ensure!(rows.len() == size as usize, "an id for every message");
            left -= size;
        }
        Ok(())
    }

    /// The server process that works for it.
    pub(crate) async fn backend(&mut self) -> Result<Option<Backend>> {
        Backend::of(&mut self.connection).await
    }

    /// Ends the session.
    pub(crate) async fn close(self) -> Result<()> {
        Ok(self.connection.close().await?)
    }

    async fn claim(&mut self, limit: u32) -> Result<Vec<i64>> {
        let rows = sqlx::query(include_str!("../sql/control_claim.sql"))
            .bind(QUEUE)
            .bind(OWNER)
            .bind(i64::from(limit))
            .fetch_all(&mut self.connection)
            .await
            .context("control: claim")?;
        let mut ids = Vec::with_capacity(rows.len());
        for row in &rows {
            // Decoded as a worker would need it, and as consign's store does.
            let Json(payload): Json<Value> = row.try_get("payload")?;
            let Json(_headers): Json<Value> = row.try_get("headers")?;
            let _key: Option<String> = row.try_get("key")?;
            ensure!(payload.is_object(), "a payload comes back as it was sent");
            ids.push(row.try_get("id")?);
        }
        Ok(ids)
    }

    async fn settle(&mut self, ids: &[i64]) -> Result<()> {
        let done = sqlx::query(include_str!("../sql/control_settle.sql"))
            .bind(ids)
            .bind(OWNER)
            .execute(&mut self.connection)
            .await
            .context("control: settle")?;
        ensure!(
            done.rows_affected() == ids.len() as u64,
            "an attempt row for every message"
        );
        Ok(())
    }
}

impl Worker for ControlWorker {
    async fn work(&mut self, limit: u32) -> Result<Option<WorkStep>> {
        let started = Instant::now();
        let ids = self.claim(limit).await?;
        if ids.is_empty() {
            return Ok(None);
        }
        let claimed = Instant::now();
        self.settle(&ids).await?;
        Ok(Some(WorkStep {
            messages: u32::try_from(ids.len())?,
            claim: claimed - started,
            settle: claimed.elapsed(),
        }))
    }
}
