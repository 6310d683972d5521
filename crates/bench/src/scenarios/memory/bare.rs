//! What a commit costs here: one row of an audit's size, written to a database of the same kind on
//! the same disk, without anything else.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use sqlx::{
    Connection, PgConnection, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};

const TABLE: &str = include_str!("../../../sql/bare_commit_table.sql");
const INSERT: &str = include_str!("../../../sql/bare_commit.sql");
/// About as long as an audit of the scenario.
const BYTES: usize = 1_200;

enum To {
    Postgres(PgConnection),
    Sqlite(SqliteConnection),
}

/// A connection that commits.
pub(super) struct BareClient {
    to: To,
    next: i32,
    payload: String,
}

impl BareClient {
    /// Commits to the same server, or to a file beside the one of the URL.
    pub(super) async fn open(url: &str) -> Result<Self> {
        let to = match url.strip_prefix("sqlite:") {
            None => {
                let mut connection = PgConnection::connect(url).await?;
                sqlx::raw_sql(TABLE).execute(&mut connection).await?;
                To::Postgres(connection)
            }
            Some(file) => {
                let options = SqliteConnectOptions::new()
                    .filename(Path::new(file).with_extension("bare"))
                    .create_if_missing(true)
                    .journal_mode(SqliteJournalMode::Wal)
                    .synchronous(SqliteSynchronous::Full);
                let mut connection = SqliteConnection::connect_with(&options).await?;
                sqlx::raw_sql(TABLE).execute(&mut connection).await?;
                To::Sqlite(connection)
            }
        };
        Ok(Self {
            to,
            next: 0,
            payload: "x".repeat(BYTES),
        })
    }

    /// Commits a row, and returns how long it took.
    pub(super) async fn commit(&mut self) -> Result<Duration> {
        self.next += 1;
        let payload = self.payload.as_str();
        let sent = Instant::now();
        match &mut self.to {
            To::Postgres(connection) => {
                let insert = sqlx::query(INSERT).bind(self.next).bind(payload);
                insert.execute(connection).await.map(drop)
            }
            To::Sqlite(connection) => {
                let insert = sqlx::query(INSERT).bind(self.next).bind(payload);
                insert.execute(connection).await.map(drop)
            }
        }
        .context("commit a bare row")?;
        Ok(sent.elapsed())
    }
}
