//! A store in a file of its own, with a clock moved by hand.

use std::sync::Arc;

use async_trait::async_trait;
use consign_conformance::Harness;
use consign_kernel::{ManualClock, NewMessage, Result, Store};
use consign_orders::{Ledger, store::sqlite_component};
use consign_sqlite::{Clock, Component, SqliteOptions, SqliteStore};
use jiff::{SignedDuration, Timestamp};
use sqlx::{ConnectOptions, Connection, SqliteConnection, sqlite::SqliteConnectOptions};
use tempfile::TempDir;

use crate::cases::{LedgerFactory, LedgerHarness};

/// Makes fresh stores in files of their own.
#[derive(Debug, Default)]
pub(crate) struct SqliteFactory;

#[async_trait]
impl LedgerFactory for SqliteFactory {
    async fn fresh(&self) -> Box<dyn LedgerHarness> {
        Box::new(Bench::new().await)
    }
}

/// A database file that goes with the test, a clock, and a store.
#[derive(Debug)]
pub(crate) struct Bench {
    directory: TempDir,
    component: Arc<dyn Component>,
    pub(crate) clock: ManualClock,
    pub(crate) store: SqliteStore,
}

impl Bench {
    pub(crate) async fn new() -> Self {
        Self::with(sqlite_component()).await
    }

    /// With a component that may be broken.
    pub(crate) async fn with(component: Arc<dyn Component>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let clock = ManualClock::at(Timestamp::from_second(1_800_000_000).unwrap());
        let file = directory.path().join("queue.db");
        let options = options(file.to_str().unwrap(), &clock).component(Arc::clone(&component));
        let store = SqliteStore::open(&options.migrate_on_open(true)).await;
        Self {
            directory,
            component,
            clock,
            store: store.unwrap(),
        }
    }

    pub(crate) fn path(&self) -> String {
        let file = self.directory.path().join("queue.db");
        file.to_str().unwrap().to_owned()
    }

    /// Another store on the same file.
    pub(crate) async fn open(&self) -> SqliteStore {
        let options = options(&self.path(), &self.clock).component(Arc::clone(&self.component));
        SqliteStore::open(&options).await.unwrap()
    }

    /// A store on the same file whose process does not have the app.
    pub(crate) async fn open_without_the_app(&self) -> SqliteStore {
        let options = options(&self.path(), &self.clock);
        SqliteStore::open(&options).await.unwrap()
    }

    /// A plain connection, as an application's own.
    pub(crate) async fn connect(&self) -> SqliteConnection {
        let options = SqliteConnectOptions::new().filename(self.path());
        options.connect().await.unwrap()
    }
}

fn options(path: &str, clock: &ManualClock) -> SqliteOptions {
    let options = SqliteOptions::new(path).unwrap();
    options.clock(Clock::Manual(clock.clone()))
}

#[async_trait]
impl LedgerHarness for Bench {
    fn ledger(&self) -> Arc<dyn Ledger> {
        Arc::new(self.store.clone())
    }

    async fn another_ledger(&self) -> Arc<dyn Ledger> {
        Arc::new(self.open().await)
    }
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
