//! The progress of workers, read from the database.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use sqlx::{PgConnection, Row};
use tokio::time::{interval, timeout};

use crate::backend::Backend;

/// How often to look. Looking takes time from those who work.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(300);

/// Watches workers through the database.
pub(crate) struct Progress {
    connection: PgConnection,
    after: i64,
}

impl Progress {
    /// From the messages that will be enqueued next.
    pub(crate) async fn from_here(mut connection: PgConnection) -> Result<Self> {
        let row = sqlx::query("SELECT coalesce(max(id), 0) AS id FROM consign.message")
            .fetch_one(&mut connection)
            .await?;
        let after = row.try_get("id")?;
        Ok(Self { connection, after })
    }

    /// Waits until nothing is ready or leased.
    pub(crate) async fn until_nothing_left(&mut self) -> Result<()> {
        let mut looks = interval(LOOK_EVERY);
        let nothing_left = async {
            loop {
                looks.tick().await;
                let row = sqlx::query(include_str!("../sql/nothing_left.sql"))
                    .fetch_one(&mut self.connection)
                    .await?;
                if row.try_get("nothing_left")? {
                    return anyhow::Ok(());
                }
            }
        };
        timeout(PATIENCE, nothing_left)
            .await
            .context("the workers did not finish")?
    }

    /// Processor time of the server's processes so far, ours aside; none when the server runs
    /// elsewhere.
    pub(crate) async fn server_time(&mut self) -> Result<Option<Duration>> {
        let rows = sqlx::query(include_str!("../sql/server_processes.sql"))
            .fetch_all(&mut self.connection)
            .await?;
        let mut pids = Vec::new();
        for row in &rows {
            pids.push(row.try_get::<i32, _>("pid")?);
        }
        Ok(Backend::time_of(&pids))
    }

    /// Messages per second, from the first claim to the last settle. Every one of `messages` must
    /// have been delivered.
    pub(crate) async fn rate(&mut self, messages: u32) -> Result<f64> {
        let row = sqlx::query(include_str!("../sql/worked.sql"))
            .bind(self.after)
            .fetch_one(&mut self.connection)
            .await?;
        let (delivered, seconds): (i64, f64) = (row.try_get("messages")?, row.try_get("seconds")?);
        ensure!(
            delivered == i64::from(messages),
            "{delivered} of {messages} messages were delivered"
        );
        Ok(f64::from(messages) / seconds)
    }
}
