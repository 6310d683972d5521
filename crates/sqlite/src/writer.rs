//! The one connection that writes, and the transactions on it.
//!
//! SQLite lets one connection write at a time, so every store has one writer and its callers take
//! turns, first come first served. Each write is one `BEGIN IMMEDIATE` transaction: it waits for
//! other processes at its start and never fails for them afterwards.
//!
//! Whoever holds the writer has taken the connection out of its slot and puts it back only after
//! a clean COMMIT or ROLLBACK. A future dropped in between drops the connection with it, and SQLite
//! rolls back what it had begun; the next caller opens a new one.

use std::{collections::BTreeSet, time::Duration};

use consign_kernel::{Certainty, Error, LaneName};
use jiff::Timestamp;
use sqlx::{ConnectOptions, SqliteConnection, sqlite::SqliteConnectOptions};
use tokio::sync::{Mutex, MutexGuard};

use crate::{
    error::{Failure, Result, from_commit, from_database, is_busy},
    fail,
    options::{Clock, SqliteOptions},
};

/// The writing side of a store.
#[derive(Debug)]
pub(crate) struct Writer {
    slot: Mutex<Option<SqliteConnection>>,
    connect: SqliteConnectOptions,
    busy_timeout: Duration,
    clock: Clock,
}

impl Writer {
    pub(crate) fn new(options: &SqliteOptions) -> Self {
        Self {
            slot: Mutex::new(None),
            connect: options.writing(),
            busy_timeout: options.busy_timeout,
            clock: options.clock.clone(),
        }
    }

    /// Begins a write transaction and reads the clock in it.
    pub(crate) async fn begin(
        &self,
        attempted: &'static str,
    ) -> consign_kernel::Result<Transaction<'_>> {
        let slot = tokio::time::timeout(self.busy_timeout, self.slot.lock()).await;
        let mut slot = slot.map_err(|elapsed| Error::Unavailable {
            attempted,
            certainty: Certainty::Definite,
            source: Box::new(elapsed),
        })?;
        let open = slot.take();
        let mut connection = match open {
            Some(connection) => connection,
            None => self
                .connect
                .connect()
                .await
                .map_err(|error| from_database(attempted, error))?,
        };
        if let Err(error) = sqlx::query("BEGIN IMMEDIATE")
            .execute(&mut connection)
            .await
        {
            if is_busy(&error) {
                *slot = Some(connection);
            }
            return Err(from_database(attempted, error));
        }
        Ok(Transaction {
            slot,
            connection,
            attempted,
            now: self.clock.now(),
            woken: BTreeSet::new(),
        })
    }

    /// Closes the connection after what is under way.
    pub(crate) async fn close(&self) -> sqlx::Result<()> {
        let open = self.slot.lock().await.take();
        match open {
            Some(connection) => sqlx::Connection::close(connection).await,
            None => Ok(()),
        }
    }
}

/// A write transaction under way.
#[derive(Debug)]
pub(crate) struct Transaction<'w> {
    slot: MutexGuard<'w, Option<SqliteConnection>>,
    connection: SqliteConnection,
    attempted: &'static str,
    now: Timestamp,
    woken: BTreeSet<LaneName>,
}

/// What an operation works with: a connection inside a write transaction, and the time there.
#[derive(Debug)]
pub(crate) struct Work<'c> {
    pub(crate) connection: &'c mut SqliteConnection,
    pub(crate) now: Timestamp,
    /// Lanes that have something new to claim once the transaction is committed.
    pub(crate) woken: &'c mut BTreeSet<LaneName>,
}

impl Transaction<'_> {
    pub(crate) fn work(&mut self) -> Work<'_> {
        Work {
            connection: &mut self.connection,
            now: self.now,
            woken: &mut self.woken,
        }
    }

    /// Commits what succeeded, rolls back what did not; answers with the lanes to wake.
    pub(crate) async fn finish<T>(
        mut self,
        outcome: Result<T>,
    ) -> consign_kernel::Result<(T, BTreeSet<LaneName>)> {
        match outcome {
            Ok(answer) => {
                if self.attempted == "settle" {
                    fail::point("settle_before_commit");
                }
                let committed = sqlx::query("COMMIT").execute(&mut self.connection).await;
                committed.map_err(|error| from_commit(self.attempted, error))?;
                *self.slot = Some(self.connection);
                Ok((answer, self.woken))
            }
            Err(Failure::Refused(error)) => {
                let rolled_back = sqlx::query("ROLLBACK").execute(&mut self.connection).await;
                if rolled_back.is_ok() {
                    *self.slot = Some(self.connection);
                }
                Err(error)
            }
            // The connection goes with the transaction: SQLite may have ended it already.
            Err(failure @ Failure::Database(_)) => Err(failure.during(self.attempted)),
        }
    }
}
