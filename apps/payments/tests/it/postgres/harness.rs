//! Fresh PostgreSQL databases with the engine and payments, and a clock that tests can move.

use std::sync::Arc;

use async_trait::async_trait;
use consign_conformance::Harness;
use consign_kernel::{NewMessage, Result, Store};
use consign_payments::{
    NewPayment, Payments,
    store::{POSTGRES_COMPONENT, enqueue_in_postgres},
};
use consign_postgres::{PostgresOptions, PostgresStore, enqueue_in, migrate};
use consign_testkit::{TestDatabase, fingerprint};
use jiff::{SignedDuration, Timestamp};
use sqlx::{Connection, PgConnection};

use crate::cases::PaymentsHarness;

/// Replaces the database's clock by one that stands still until told otherwise.
const FREEZE: &str = "
CREATE SCHEMA frozen;
CREATE TABLE frozen.clock (now timestamptz NOT NULL);
INSERT INTO frozen.clock VALUES ('2027-01-15 08:00:00Z');
CREATE OR REPLACE FUNCTION consign.clock() RETURNS timestamptz
    LANGUAGE sql VOLATILE AS 'SELECT now FROM frozen.clock';
";

/// The engine and payments, nothing else.
pub(super) fn options(url: impl Into<String>) -> PostgresOptions {
    PostgresOptions {
        components: vec![POSTGRES_COMPONENT],
        ..PostgresOptions::new(url)
    }
}

/// A migrated database whose clock runs.
pub(super) async fn database() -> TestDatabase {
    template("consign_payments", "").await
}

/// A migrated database whose clock stands still.
pub(super) async fn frozen_database() -> TestDatabase {
    template("consign_payments_frozen", FREEZE).await
}

async fn template(name: &str, extra: &'static str) -> TestDatabase {
    let migrations = options("").migrations();
    let parts = migrations.iter().map(|m| m.sql).chain([extra]);
    let name = format!("{name}_{}", fingerprint(parts));
    TestDatabase::from_template(&name, async |url: &str| {
        migrate(&options(url)).await.unwrap();
        execute(url, extra).await;
    })
    .await
}

pub(super) async fn connect(database: &TestDatabase) -> PostgresStore {
    PostgresStore::connect(&options(database.url()))
        .await
        .unwrap()
}

/// Runs SQL on a connection of its own.
pub(super) async fn execute(url: &str, sql: &'static str) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

/// A store over a database of its own, whose clock stands still.
pub(super) struct Bench {
    store: Arc<PostgresStore>,
    database: TestDatabase,
}

impl Bench {
    pub(super) async fn new() -> Self {
        let database = frozen_database().await;
        let store = Arc::new(connect(&database).await);
        Self { store, database }
    }
}

#[async_trait]
impl Harness for Bench {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store) as _
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

#[async_trait]
impl PaymentsHarness for Bench {
    fn payments(&self) -> Arc<dyn Payments> {
        Arc::clone(&self.store) as _
    }

    async fn another_payments(&self) -> Arc<dyn Payments> {
        Arc::new(connect(&self.database).await)
    }

    async fn enqueue_payments_and_roll_back(&self, payments: &[NewPayment]) {
        let mut tx = self.store.pool().begin().await.unwrap();
        let enqueued = enqueue_in_postgres(&mut tx, payments).await.unwrap();
        assert_eq!(enqueued.len(), payments.len());
        tx.rollback().await.unwrap();
    }
}
