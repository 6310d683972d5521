//! The store as the conformance suite examines it: a file of its own, a clock moved by hand.

use std::sync::Arc;

use async_trait::async_trait;
use consign_conformance::{Factory, Harness};
use consign_kernel::{
    Claim, ManualClock, MessageId, NewMessage, QueueName, Report, Result, SettleAnswer, Store,
};
use consign_memory::Logbook;
use consign_sqlite::{Clock, SqliteOptions, SqliteStore};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use sqlx::{ConnectOptions, Connection, SqliteConnection, sqlite::SqliteConnectOptions};
use tempfile::TempDir;

/// Makes fresh stores in files of their own.
#[derive(Debug, Default)]
pub(crate) struct SqliteFactory;

#[async_trait]
impl Factory for SqliteFactory {
    async fn fresh(&self) -> Box<dyn Harness> {
        Box::new(Bench::new().await)
    }
}

/// A database file that goes with the test, a clock, and a store.
#[derive(Debug)]
pub(crate) struct Bench {
    directory: TempDir,
    pub(crate) clock: ManualClock,
    pub(crate) store: SqliteStore,
}

impl Bench {
    pub(crate) async fn new() -> Self {
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

    pub(crate) fn path(&self) -> String {
        let file = self.directory.path().join("queue.db");
        file.to_str().unwrap().to_owned()
    }

    pub(crate) fn options(&self) -> SqliteOptions {
        options(&self.path(), &self.clock)
    }

    /// Another store on the same file.
    pub(crate) async fn open(&self) -> SqliteStore {
        SqliteStore::open(&self.options()).await.unwrap()
    }

    /// A plain connection, as an application's own.
    pub(crate) async fn connect(&self) -> SqliteConnection {
        let options = SqliteConnectOptions::new().filename(self.path());
        options.connect().await.unwrap()
    }
}

fn options(path: &str, clock: &ManualClock) -> SqliteOptions {
    let options = SqliteOptions::new(path).unwrap();
    let options = options.component(consign_scm_store::sqlite_component());
    options.clock(Clock::Manual(clock.clone()))
}

#[async_trait]
impl Harness for Bench {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    async fn another(&self) -> Arc<dyn Store> {
        Arc::new(self.open().await)
    }

    async fn another_with_short_walks(&self, walk_max: u32) -> Arc<dyn Store> {
        let options = self.options().list_walk_max(walk_max);
        Arc::new(SqliteStore::open(&options).await.unwrap())
    }

    fn logbook(&self) -> Option<Arc<dyn Logbook>> {
        Some(Arc::new(self.store.clone()))
    }

    async fn another_logbook(&self) -> Option<Arc<dyn Logbook>> {
        Some(Arc::new(self.open().await))
    }

    async fn lose_audits(&self, outbox_id: MessageId) {
        let mut connection = self.connect().await;
        let name = "write_audit_delete";
        let guard: String = sqlx::query_scalar("SELECT sql FROM sqlite_schema WHERE name = ?1")
            .bind(name)
            .fetch_one(&mut connection)
            .await
            .unwrap();
        let statements = format!(
            "BEGIN IMMEDIATE; DROP TRIGGER {name}; DELETE FROM write_audit WHERE outbox_id = \
             {outbox_id}; {guard}; COMMIT"
        );
        let lost = sqlx::raw_sql(sqlx::AssertSqlSafe(statements)).execute(&mut connection);
        lost.await.unwrap();
    }

    async fn break_audits(&self, is_broken: bool) {
        let statement = match is_broken {
            true => {
                "CREATE TRIGGER audits_broken BEFORE INSERT ON write_audit \
                 BEGIN SELECT raise(ABORT, 'audits are broken'); END"
            }
            false => "DROP TRIGGER audits_broken",
        };
        let mut connection = self.connect().await;
        let done = sqlx::raw_sql(statement).execute(&mut connection);
        done.await.unwrap();
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

/// The queue every store is born with.
pub(crate) fn queue() -> QueueName {
    "default".parse().unwrap()
}

/// `count` messages for it.
pub(crate) fn messages(count: usize) -> Vec<NewMessage> {
    (0..count)
        .map(|n| NewMessage::new(queue(), json!({ "n": n })))
        .collect()
}

/// Claims from it.
pub(crate) fn claim(limit: u32) -> Claim {
    Claim::new(queue(), "worker-1", limit)
}

/// Claims and delivers until nothing is due; answers with what it saw, in order.
pub(crate) async fn drain(store: &SqliteStore, limit: u32) -> Vec<MessageId> {
    let mut seen = Vec::new();
    while let Some(lease) = store.claim(&claim(limit)).await.unwrap() {
        let ids: Vec<MessageId> = lease.messages.iter().map(|m| m.message.id).collect();
        let reports: Vec<Report> = ids.iter().copied().map(Report::delivered).collect();
        let answer = store.settle(lease.token, &reports).await.unwrap();
        assert!(matches!(answer, SettleAnswer::Settled(_)), "{answer:?}");
        seen.extend(ids);
    }
    seen
}
