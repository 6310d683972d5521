//! What a notification takes by itself: no design that relies on one can be quicker.
//!
//! Its transaction writes a row, as every enqueue must: one that only notifies is not waited for
//! until it is on disk.

use std::time::Duration;

use anyhow::{Context, Result};
use sqlx::{PgConnection, postgres::PgListener};
use tokio::time::{Instant, timeout};

use crate::scratch::Scratch;

const PATIENCE: Duration = Duration::from_secs(10);

/// A plain listener, and a connection that notifies it.
pub(super) struct Floor {
    listener: PgListener,
    sender: PgConnection,
}

impl Floor {
    pub(super) async fn start(scratch: &Scratch) -> Result<Self> {
        let mut listener = PgListener::connect(scratch.url()).await?;
        listener.listen("consign_bench").await?;
        let sender = scratch.connect().await?;
        Ok(Self { listener, sender })
    }

    /// From just before COMMIT is sent until the listener has received it.
    pub(super) async fn sample(&mut self) -> Result<Duration> {
        let write = "BEGIN; INSERT INTO consign_bench.row VALUES (now()); SELECT pg_notify('consign_bench', '')";
        sqlx::raw_sql(write).execute(&mut self.sender).await?;
        let committed = Instant::now();
        // Both at once, as two processes would.
        let heard = async {
            let heard = timeout(PATIENCE, self.listener.recv()).await;
            heard.context("no notification came")??;
            anyhow::Ok(committed.elapsed())
        };
        let commit = sqlx::raw_sql("COMMIT").execute(&mut self.sender);
        let (heard, committed) = tokio::join!(heard, commit);
        committed?;
        heard
    }
}
