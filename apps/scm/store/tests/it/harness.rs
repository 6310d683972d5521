//! Fresh databases of both kinds, with a clock that tests can move.

use std::sync::Arc;

use async_trait::async_trait;
use consign_kernel::{ManualClock, Store};
use consign_memory::Logbook;
use consign_postgres::{PostgresOptions, PostgresStore, migrate};
use consign_scm::ScmLedger;
use consign_scm_store::{POSTGRES_COMPONENT, ScmStore, sqlite_component};
use consign_sqlite::{Clock, SqliteOptions, SqliteStore};
use consign_testkit::{TestDatabase, fingerprint};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use sqlx::{
    ConnectOptions, Connection, PgConnection, SqliteConnection, sqlite::SqliteConnectOptions,
};
use tempfile::TempDir;

use crate::cases::Harness;

/// An SQLite file with the apps that the ledger needs.
pub(crate) fn sqlite_options(path: &str) -> SqliteOptions {
    let options = SqliteOptions::new(path).unwrap();
    options.component(sqlite_component())
}

/// A database file that goes with the test, a clock, and a store.
pub(crate) struct SqliteFixture {
    directory: TempDir,
    clock: ManualClock,
    pub(crate) store: SqliteStore,
}

impl SqliteFixture {
    pub(crate) async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let clock = ManualClock::at(Timestamp::from_second(1_800_000_000).unwrap());
        let store = open(&directory, &clock).await;
        Self {
            directory,
            clock,
            store,
        }
    }

    pub(crate) fn scm(&self) -> ScmStore<SqliteStore> {
        ScmStore::new(Arc::new(self.store.clone()))
    }

    /// A plain connection, as an application's own.
    pub(crate) async fn connect(&self) -> SqliteConnection {
        let file = self.directory.path().join("queue.db");
        let options = SqliteConnectOptions::new().filename(file);
        options.connect().await.unwrap()
    }
}

async fn open(directory: &TempDir, clock: &ManualClock) -> SqliteStore {
    let file = directory.path().join("queue.db");
    let options = sqlite_options(file.to_str().unwrap()).clock(Clock::Manual(clock.clone()));
    let store = SqliteStore::open(&options.migrate_on_open(true)).await;
    store.unwrap()
}

#[async_trait]
impl Harness for SqliteFixture {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    fn ledger(&self) -> Arc<dyn ScmLedger> {
        Arc::new(self.scm())
    }

    async fn another(&self) -> Arc<dyn ScmLedger> {
        let store = open(&self.directory, &self.clock).await;
        Arc::new(ScmStore::new(Arc::new(store)))
    }

    fn logbook(&self) -> Arc<dyn Logbook> {
        Arc::new(self.store.clone())
    }

    async fn facts(&self) -> Vec<Value> {
        let sql = "SELECT json_object('source_type', source_type, 'source_id', source_id, 'author_raw', author_raw,
                          'is_bulk', json(CASE is_bulk WHEN 1 THEN 'true' ELSE 'false' END), 'meta_json', json(meta_json))
                   FROM scm_v_facts ORDER BY source_id";
        let facts: Vec<String> = sqlx::query_scalar(sql)
            .fetch_all(&mut self.connect().await)
            .await
            .unwrap();
        let parse = |fact: &String| serde_json::from_str(fact).unwrap();
        facts.iter().map(parse).collect()
    }

    async fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn advance(&self, by: SignedDuration) {
        self.clock.advance(by);
    }
}

/// Replaces the database's clock by one that stands still until told otherwise.
const FREEZE: &str = "
CREATE SCHEMA frozen;
CREATE TABLE frozen.clock (now timestamptz NOT NULL);
INSERT INTO frozen.clock VALUES ('2027-01-15 08:00:00Z');
CREATE OR REPLACE FUNCTION consign.clock() RETURNS timestamptz
    LANGUAGE sql VOLATILE AS 'SELECT now FROM frozen.clock';
";

/// A PostgreSQL database with the apps that the ledger needs.
pub(crate) fn postgres_options(url: &str) -> PostgresOptions {
    let mut options = PostgresOptions::new(url);
    options.components.push(POSTGRES_COMPONENT);
    options
}

/// A migrated database whose clock runs.
pub(crate) async fn database() -> TestDatabase {
    template("consign_scm", "").await
}

async fn template(prefix: &str, more: &'static str) -> TestDatabase {
    let migrations = postgres_options("").migrations();
    let parts = migrations.iter().map(|m| m.sql).chain([more]);
    let name = format!("{prefix}_{}", fingerprint(parts));
    TestDatabase::from_template(&name, async |url: &str| {
        migrate(&postgres_options(url)).await.unwrap();
        execute(url, more).await;
    })
    .await
}

pub(crate) async fn connect(database: &TestDatabase) -> PostgresStore {
    let store = PostgresStore::connect(&postgres_options(database.url())).await;
    store.unwrap()
}

/// Runs SQL on a connection of its own.
pub(crate) async fn execute(url: &str, sql: &'static str) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

/// A database that goes with the test, whose clock stands still, and a store.
pub(crate) struct PostgresFixture {
    store: Arc<PostgresStore>,
    database: TestDatabase,
}

impl PostgresFixture {
    pub(crate) async fn new() -> Self {
        let database = template("consign_scm_frozen", FREEZE).await;
        Self {
            store: Arc::new(connect(&database).await),
            database,
        }
    }
}

#[async_trait]
impl Harness for PostgresFixture {
    fn store(&self) -> Arc<dyn Store> {
        Arc::<PostgresStore>::clone(&self.store)
    }

    fn ledger(&self) -> Arc<dyn ScmLedger> {
        Arc::new(ScmStore::new(Arc::clone(&self.store)))
    }

    async fn another(&self) -> Arc<dyn ScmLedger> {
        let store = connect(&self.database).await;
        Arc::new(ScmStore::new(Arc::new(store)))
    }

    fn logbook(&self) -> Arc<dyn Logbook> {
        Arc::<PostgresStore>::clone(&self.store)
    }

    async fn facts(&self) -> Vec<Value> {
        sqlx::query_scalar("SELECT to_jsonb(f) FROM scm.v_facts f ORDER BY source_id")
            .fetch_all(self.store.pool())
            .await
            .unwrap()
    }

    async fn now(&self) -> Timestamp {
        let now: jiff_sqlx::Timestamp = sqlx::query_scalar("SELECT consign.clock()")
            .fetch_one(self.store.pool())
            .await
            .unwrap();
        now.to_jiff()
    }

    async fn advance(&self, by: SignedDuration) {
        sqlx::query("UPDATE frozen.clock SET now = now + interval '1 microsecond' * $1")
            .bind(i64::try_from(by.as_micros()).unwrap())
            .execute(self.store.pool())
            .await
            .unwrap();
    }
}
