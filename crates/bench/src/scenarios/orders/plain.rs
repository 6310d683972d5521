//! The control: the ledger's row, inserted by hand.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use sqlx::{
    Connection, PgConnection, SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};
use tokio::task::JoinSet;

use super::Orders;

const DIGEST: &str = "sha256:7851cb24fab37208ed567244bc268e514db6e6936635c0a43996d25616ca34e0";

/// Where plain rows go.
pub(super) enum PlainTarget {
    /// As many connections as clients.
    Postgres(String),
    /// One connection: SQLite has one writer, and waiting for its lock would only make it slower.
    Sqlite(SqlitePool),
}

impl PlainTarget {
    pub(super) async fn postgres(url: &str) -> Result<Self> {
        let mut connection = PgConnection::connect(url).await?;
        sqlx::raw_sql(include_str!("../../../sql/plain_order_postgres.sql"))
            .execute(&mut connection)
            .await?;
        connection.close().await?;
        Ok(Self::Postgres(url.to_owned()))
    }

    pub(super) async fn sqlite(directory: &Path) -> Result<Self> {
        let options = SqliteConnectOptions::new()
            .filename(directory.join("plain.db"))
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full);
        let pool = SqlitePoolOptions::new()
            .max_connections(1)
            .connect_with(options)
            .await?;
        sqlx::raw_sql(include_str!("../../../sql/plain_order_sqlite.sql"))
            .execute(&pool)
            .await?;
        Ok(Self::Sqlite(pool))
    }

    /// Rows a second with this many clients.
    pub(super) async fn rate(
        &self,
        clients: usize,
        during: Duration,
        orders: &Orders,
    ) -> Result<f64> {
        let mut tasks = JoinSet::new();
        let mut connections = Vec::new();
        if let Self::Postgres(url) = self {
            for _ in 0..clients {
                connections.push(PgConnection::connect(url).await?);
            }
        }
        let started = Instant::now();
        match self {
            Self::Postgres(_) => {
                for connection in connections {
                    tasks.spawn(fill_postgres(connection, orders.clone(), during));
                }
            }
            Self::Sqlite(pool) => {
                for _ in 0..clients {
                    tasks.spawn(fill_sqlite(pool.clone(), orders.clone(), during));
                }
            }
        }
        let mut rows = 0;
        for filled in tasks.join_all().await {
            rows += filled?;
        }
        Ok(f64::from(rows) / started.elapsed().as_secs_f64())
    }
}

async fn fill_postgres(
    mut connection: PgConnection,
    orders: Orders,
    during: Duration,
) -> Result<u32> {
    let started = Instant::now();
    let mut rows = 0;
    while started.elapsed() < during {
        let (key, body) = orders.order();
        sqlx::query(include_str!("../../../sql/plain_order_insert.sql"))
            .bind(key)
            .bind(DIGEST)
            .bind(body)
            .execute(&mut connection)
            .await
            .context("insert a plain row")?;
        rows += 1;
    }
    connection.close().await?;
    Ok(rows)
}

async fn fill_sqlite(pool: SqlitePool, orders: Orders, during: Duration) -> Result<u32> {
    let started = Instant::now();
    let mut rows = 0;
    while started.elapsed() < during {
        let (key, body) = orders.order();
        sqlx::query(include_str!("../../../sql/plain_order_insert_sqlite.sql"))
            .bind(key)
            .bind(DIGEST)
            .bind(body)
            .execute(&pool)
            .await
            .context("insert a plain row")?;
        rows += 1;
    }
    Ok(rows)
}
