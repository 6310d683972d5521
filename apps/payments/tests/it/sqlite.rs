//! Payments in SQLite: a file of its own for each test, a clock moved by hand.

mod plans;
mod rules;
mod schema;
mod tables;

use std::sync::Arc;

use async_trait::async_trait;
use consign_conformance::Harness;
use consign_kernel::{ManualClock, NewMessage, Result, Store};
use consign_payments::{
    NewPayment, Payments,
    store::{enqueue_in_sqlite, sqlite_component},
};
use consign_sqlite::{Clock, SqliteOptions, SqliteStore};
use jiff::{SignedDuration, Timestamp};
use sqlx::{ConnectOptions, Connection, SqliteConnection, sqlite::SqliteConnectOptions};
use tempfile::TempDir;

use crate::cases::PaymentsHarness;

/// A database file that goes with the test, a clock, and a store.
#[derive(Debug)]
struct Bench {
    directory: TempDir,
    clock: ManualClock,
    store: SqliteStore,
}

impl Bench {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let clock = ManualClock::at(Timestamp::from_second(1_800_000_000).unwrap());
        let file = directory.path().join("queue.db");
        let options = options(file.to_str().unwrap(), &clock).migrate_on_open(true);
        let store = SqliteStore::open(&options).await.unwrap();
        Self {
            directory,
            clock,
            store,
        }
    }

    fn path(&self) -> String {
        let file = self.directory.path().join("queue.db");
        file.to_str().unwrap().to_owned()
    }

    /// Another store on the same file.
    async fn open(&self) -> SqliteStore {
        let options = options(&self.path(), &self.clock);
        SqliteStore::open(&options).await.unwrap()
    }

    /// A plain connection, as an application's own.
    async fn connect(&self) -> SqliteConnection {
        let options = SqliteConnectOptions::new().filename(self.path());
        options.connect().await.unwrap()
    }
}

fn options(path: &str, clock: &ManualClock) -> SqliteOptions {
    let options = SqliteOptions::new(path).unwrap();
    let options = options.clock(Clock::Manual(clock.clone()));
    options.component(sqlite_component())
}

#[async_trait]
impl Harness for Bench {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    async fn another(&self) -> Arc<dyn Store> {
        Arc::new(self.open().await)
    }

    async fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn advance(&self, by: SignedDuration) {
        self.clock.advance(by);
    }

    async fn enqueue_in_transaction(&self, messages: &[NewMessage]) -> Result<()> {
        let mut connection = self.connect().await;
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.unwrap();
        self.store.enqueue_in(&mut transaction, messages).await?;
        transaction.commit().await.unwrap();
        Ok(())
    }

    async fn enqueue_and_roll_back(&self, messages: &[NewMessage]) -> Result<()> {
        let mut connection = self.connect().await;
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.unwrap();
        self.store.enqueue_in(&mut transaction, messages).await?;
        transaction.rollback().await.unwrap();
        Ok(())
    }
}

#[async_trait]
impl PaymentsHarness for Bench {
    fn payments(&self) -> Arc<dyn Payments> {
        Arc::new(self.store.clone())
    }

    async fn another_payments(&self) -> Arc<dyn Payments> {
        Arc::new(self.open().await)
    }

    async fn enqueue_payments_and_roll_back(&self, payments: &[NewPayment]) {
        let mut connection = self.connect().await;
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.unwrap();
        let enqueued = enqueue_in_sqlite(&self.store, &mut transaction, payments).await;
        assert_eq!(enqueued.unwrap().len(), payments.len());
        transaction.rollback().await.unwrap();
    }
}
