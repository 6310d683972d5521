//! Fresh databases of both kinds, with a clock that tests can move.

use std::sync::Arc;

use async_trait::async_trait;
pub(crate) use consign_conformance::fixture::postgres::execute;
use consign_conformance::fixture::{
    postgres::{self, PostgresFixture},
    sqlite::SqliteFixture,
};
use consign_kernel::Store;
use consign_memory::Logbook;
use consign_postgres::{PostgresOptions, PostgresStore};
use consign_scm::ScmLedger;
use consign_scm_app::{POSTGRES_COMPONENT, ScmStore, sqlite_component};
use consign_sqlite::{SqliteOptions, SqliteStore};
use consign_testkit::TestDatabase;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::cases::Harness;

/// An SQLite file with the apps that the ledger needs.
pub(crate) fn sqlite_options(path: &str) -> SqliteOptions {
    with_apps(SqliteOptions::new(path).unwrap())
}

fn with_apps(options: SqliteOptions) -> SqliteOptions {
    options
        .component(consign_memory::store::sqlite_component())
        .component(sqlite_component())
}

/// A database file that goes with the test, a clock, and a store.
pub(crate) async fn sqlite_fixture() -> SqliteFixture {
    SqliteFixture::new(with_apps).await
}

pub(crate) fn scm(store: &SqliteStore) -> ScmStore<SqliteStore> {
    ScmStore::new(Arc::new(store.clone()))
}

#[async_trait]
impl Harness for SqliteFixture {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    fn ledger(&self) -> Arc<dyn ScmLedger> {
        Arc::new(scm(&self.store))
    }

    async fn another(&self) -> Arc<dyn ScmLedger> {
        Arc::new(scm(&self.open().await))
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

/// A PostgreSQL database with the apps that the ledger needs.
pub(crate) fn postgres_options(url: &str) -> PostgresOptions {
    let mut options = PostgresOptions::new(url);
    options.components.extend([
        consign_memory::store::POSTGRES_COMPONENT,
        POSTGRES_COMPONENT,
    ]);
    options
}

/// A migrated database whose clock runs.
pub(crate) async fn database() -> TestDatabase {
    postgres::database(&postgres_options("")).await
}

pub(crate) async fn connect(database: &TestDatabase) -> PostgresStore {
    postgres::connect(&postgres_options(""), database).await
}

/// A database for one test, whose clock the test sets, and a store.
pub(crate) async fn postgres_fixture() -> PostgresFixture {
    PostgresFixture::new(&postgres_options("")).await
}

#[async_trait]
impl Harness for PostgresFixture {
    fn store(&self) -> Arc<dyn Store> {
        self.postgres()
    }

    fn ledger(&self) -> Arc<dyn ScmLedger> {
        Arc::new(ScmStore::new(self.postgres()))
    }

    async fn another(&self) -> Arc<dyn ScmLedger> {
        Arc::new(ScmStore::new(Arc::new(self.connect().await)))
    }

    fn logbook(&self) -> Arc<dyn Logbook> {
        self.postgres()
    }

    async fn facts(&self) -> Vec<Value> {
        sqlx::query_scalar("SELECT to_jsonb(f) FROM scm.v_facts f ORDER BY source_id")
            .fetch_all(self.postgres().pool())
            .await
            .unwrap()
    }

    async fn now(&self) -> Timestamp {
        consign_conformance::Harness::now(self).await
    }

    async fn advance(&self, by: SignedDuration) {
        consign_conformance::Harness::advance(self, by).await;
    }
}
