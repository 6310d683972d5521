//! Fresh PostgreSQL databases with the engine and the ledger, and a clock that tests can move.

use std::sync::Arc;

use async_trait::async_trait;
use consign_conformance::Harness;
use consign_kernel::{NewMessage, Result, Store};
use consign_orders::{Ledger, store::POSTGRES_COMPONENT};
use consign_postgres::{PostgresOptions, PostgresStore, enqueue_in, migrate};
use consign_testkit::{TestDatabase, fingerprint};
use jiff::{SignedDuration, Timestamp};
use sqlx::{Connection, PgConnection};

use crate::cases::{LedgerFactory, LedgerHarness};

/// Replaces the database's clock by one that stands still until told otherwise.
const FREEZE: &str = "
CREATE SCHEMA frozen;
CREATE TABLE frozen.clock (now timestamptz NOT NULL);
INSERT INTO frozen.clock VALUES ('2027-01-15 08:00:00Z');
CREATE OR REPLACE FUNCTION consign.clock() RETURNS timestamptz
    LANGUAGE sql VOLATILE AS 'SELECT now FROM frozen.clock';
";

/// The engine and the ledger, no other app.
pub(crate) fn options(url: &str) -> PostgresOptions {
    PostgresOptions {
        components: vec![POSTGRES_COMPONENT],
        ..PostgresOptions::new(url)
    }
}

/// A migrated database whose clock runs.
pub(crate) async fn database() -> TestDatabase {
    let name = fingerprint(options("").migrations().into_iter().map(|m| m.sql));
    TestDatabase::from_template(&format!("orders_{name}"), async |url: &str| {
        migrate(&options(url)).await.unwrap();
    })
    .await
}

/// A migrated database whose clock stands still.
async fn frozen_database() -> TestDatabase {
    let migrations = options("").migrations();
    let parts = migrations.iter().map(|m| m.sql).chain([FREEZE]);
    let name = format!("orders_frozen_{}", fingerprint(parts));
    TestDatabase::from_template(&name, async |url: &str| {
        migrate(&options(url)).await.unwrap();
        execute(url, FREEZE).await;
    })
    .await
}

pub(crate) async fn connect(database: &TestDatabase) -> PostgresStore {
    let store = PostgresStore::connect(&options(database.url())).await;
    store.unwrap()
}

/// Runs SQL on a connection of its own.
pub(crate) async fn execute(url: &str, sql: &'static str) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

/// Makes fresh stores in databases of their own.
#[derive(Clone, Copy)]
pub(crate) struct PostgresFactory;

#[async_trait]
impl LedgerFactory for PostgresFactory {
    async fn fresh(&self) -> Box<dyn LedgerHarness> {
        let database = frozen_database().await;
        let store = Arc::new(connect(&database).await);
        Box::new(PostgresHarness { database, store })
    }
}

struct PostgresHarness {
    database: TestDatabase,
    store: Arc<PostgresStore>,
}

#[async_trait]
impl LedgerHarness for PostgresHarness {
    fn ledger(&self) -> Arc<dyn Ledger> {
        self.store.clone()
    }

    async fn another_ledger(&self) -> Arc<dyn Ledger> {
        Arc::new(connect(&self.database).await)
    }
}

#[async_trait]
impl Harness for PostgresHarness {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    async fn another(&self) -> Arc<dyn Store> {
        Arc::new(connect(&self.database).await)
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

    async fn enqueue_in_transaction(&self, messages: &[NewMessage]) -> Result<()> {
        let mut tx = self.store.pool().begin().await.unwrap();
        enqueue_in(&mut tx, messages).await?;
        tx.commit().await.unwrap();
        Ok(())
    }

    async fn enqueue_and_roll_back(&self, messages: &[NewMessage]) -> Result<()> {
        let mut tx = self.store.pool().begin().await.unwrap();
        enqueue_in(&mut tx, messages).await?;
        tx.rollback().await.unwrap();
        Ok(())
    }
}
