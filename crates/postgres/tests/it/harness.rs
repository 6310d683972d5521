//! Fresh PostgreSQL databases, with a clock that tests can move.

use std::sync::{Arc, RwLock};

use async_trait::async_trait;
use consign_conformance::{Factory, Harness};
use consign_kernel::{MessageId, NewMessage, Result, Store};
use consign_memory::Logbook;
use consign_postgres::{PostgresOptions, PostgresStore, enqueue_in, migrate};
use consign_testkit::{TestDatabase, fingerprint};
use jiff::{SignedDuration, Timestamp};
use sqlx::{Connection, PgConnection};

/// Replaces the database's clock by one that stands still until told otherwise.
const FREEZE: &str = "
CREATE SCHEMA frozen;
CREATE TABLE frozen.clock (now timestamptz NOT NULL);
INSERT INTO frozen.clock VALUES ('2027-01-15 08:00:00Z');
CREATE OR REPLACE FUNCTION consign.clock() RETURNS timestamptz
    LANGUAGE sql VOLATILE AS 'SELECT now FROM frozen.clock';
";

/// The engine and every app.
pub(crate) fn options(url: &str) -> PostgresOptions {
    let mut options = PostgresOptions::new(url);
    options
        .components
        .insert(0, consign_orders::store::POSTGRES_COMPONENT);
    options
        .components
        .push(consign_scm_store::POSTGRES_COMPONENT);
    options
}

/// A migrated database whose clock runs.
pub(crate) async fn database() -> TestDatabase {
    let name = format!(
        "consign_{}",
        fingerprint(options("").migrations().into_iter().map(|m| m.sql))
    );
    TestDatabase::from_template(&name, async |url: &str| {
        migrate(&options(url)).await.unwrap();
    })
    .await
}

/// A migrated database whose clock stands still.
pub(crate) async fn frozen_database() -> TestDatabase {
    let parts = options("")
        .migrations()
        .into_iter()
        .map(|m| m.sql)
        .chain([FREEZE]);
    let name = format!("consign_frozen_{}", fingerprint(parts));
    TestDatabase::from_template(&name, async |url: &str| {
        migrate(&options(url)).await.unwrap();
        execute(url, FREEZE).await;
    })
    .await
}

pub(crate) async fn connect(database: &TestDatabase) -> PostgresStore {
    PostgresStore::connect(&options(database.url()))
        .await
        .unwrap()
}

/// Runs SQL on a connection of its own.
pub(crate) async fn execute(url: &str, sql: &'static str) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

/// Makes stores for the conformance suite.
#[derive(Clone, Copy)]
pub(crate) struct PostgresFactory {
    /// Off where every claim must find exactly the oldest run, even after the clock went back and
    /// forth; see the low-water mark in the store.
    pub(crate) low_water: bool,
}

#[async_trait]
impl Factory for PostgresFactory {
    async fn fresh(&self) -> Box<dyn Harness> {
        let database = frozen_database().await;
        let options = PostgresOptions {
            low_water: self.low_water,
            ..options(database.url())
        };
        let store = Arc::new(PostgresStore::connect(&options).await.unwrap());
        Box::new(PostgresHarness {
            current: RwLock::new((options, store)),
            standby: RwLock::new(None),
            database,
        })
    }
}

struct PostgresHarness {
    current: RwLock<(PostgresOptions, Arc<PostgresStore>)>,
    standby: RwLock<Option<String>>,
    database: TestDatabase,
}

impl PostgresHarness {
    fn options(&self) -> PostgresOptions {
        self.current.read().unwrap().0.clone()
    }

    fn postgres(&self) -> Arc<PostgresStore> {
        Arc::clone(&self.current.read().unwrap().1)
    }

    async fn switch_to(&self, url: String) {
        let options = PostgresOptions {
            url,
            ..self.options()
        };
        let store = Arc::new(PostgresStore::connect(&options).await.unwrap());
        *self.current.write().unwrap() = (options, store);
    }
}

#[async_trait]
impl Harness for PostgresHarness {
    fn store(&self) -> Arc<dyn Store> {
        self.postgres()
    }

    async fn another(&self) -> Arc<dyn Store> {
        Arc::new(PostgresStore::connect(&self.options()).await.unwrap())
    }

    async fn another_with_short_walks(&self, walk_max: u32) -> Arc<dyn Store> {
        let options = PostgresOptions {
            list_walk_max: walk_max,
            ..self.options()
        };
        Arc::new(PostgresStore::connect(&options).await.unwrap())
    }

    fn logbook(&self) -> Option<Arc<dyn Logbook>> {
        Some(self.postgres())
    }

    async fn another_logbook(&self) -> Option<Arc<dyn Logbook>> {
        let another = PostgresStore::connect(&self.options()).await.unwrap();
        Some(Arc::new(another))
    }

    async fn lose_audits(&self, outbox_id: MessageId) {
        let mut tx = self.postgres().pool().begin().await.unwrap();
        sqlx::raw_sql("SET LOCAL session_replication_role = replica")
            .execute(&mut *tx)
            .await
            .unwrap();
        sqlx::query("DELETE FROM governance.write_audit WHERE outbox_id = $1")
            .bind(outbox_id.0)
            .execute(&mut *tx)
            .await
            .unwrap();
        tx.commit().await.unwrap();
    }

    async fn break_audits(&self, is_broken: bool) {
        let sql = match is_broken {
            true => "ALTER TABLE governance.write_audit RENAME TO write_audit_away",
            false => "ALTER TABLE governance.write_audit_away RENAME TO write_audit",
        };
        execute(&self.options().url, sql).await;
    }

    async fn now(&self) -> Timestamp {
        let now: jiff_sqlx::Timestamp = sqlx::query_scalar("SELECT consign.clock()")
            .fetch_one(self.postgres().pool())
            .await
            .unwrap();
        now.to_jiff()
    }

    async fn advance(&self, by: SignedDuration) {
        sqlx::query("UPDATE frozen.clock SET now = now + interval '1 microsecond' * $1")
            .bind(i64::try_from(by.as_micros()).unwrap())
            .execute(self.postgres().pool())
            .await
            .unwrap();
    }

    async fn enqueue_in_transaction(&self, messages: &[NewMessage]) -> Result<()> {
        let mut tx = self.postgres().pool().begin().await.unwrap();
        enqueue_in(&mut tx, messages).await?;
        tx.commit().await.unwrap();
        Ok(())
    }

    async fn enqueue_and_roll_back(&self, messages: &[NewMessage]) -> Result<()> {
        let mut tx = self.postgres().pool().begin().await.unwrap();
        enqueue_in(&mut tx, messages).await?;
        tx.rollback().await.unwrap();
        Ok(())
    }

    /// The standby is a copy of the whole database, sequences included.
    async fn fork_standby(&self) -> bool {
        let name = format!("{}_standby", self.database.name());
        let url = self.options().url;
        let server = std::env::var("CONSIGN_TEST_POSTGRES_URL").unwrap();
        let mut connection = PgConnection::connect(&server).await.unwrap();
        // A database can be copied only while nobody is connected to it.
        sqlx::query(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = $1",
        )
        .bind(self.database.name())
        .execute(&mut connection)
        .await
        .unwrap();
        let copy = format!("CREATE DATABASE {name} TEMPLATE {}", self.database.name());
        sqlx::raw_sql(sqlx::AssertSqlSafe(copy))
            .execute(&mut connection)
            .await
            .unwrap();
        self.switch_to(url.clone()).await;
        *self.standby.write().unwrap() = Some(url.replace(self.database.name(), &name));
        true
    }

    async fn fail_over(&self) {
        let standby = self
            .standby
            .write()
            .unwrap()
            .take()
            .expect("fork_standby comes first");
        self.switch_to(standby).await;
    }
}
