//! Fresh PostgreSQL databases with the engine and the ledger, and a clock that tests can move.

use std::sync::Arc;

use async_trait::async_trait;
pub(crate) use consign_conformance::fixture::postgres::execute;
use consign_conformance::fixture::postgres::{self, PostgresFixture};
use consign_orders::{Ledger, store::POSTGRES_COMPONENT};
use consign_postgres::{PostgresOptions, PostgresStore};
use consign_testkit::TestDatabase;

use crate::cases::{LedgerFactory, LedgerHarness};

/// The engine and the ledger, no other app.
pub(crate) fn options(url: &str) -> PostgresOptions {
    PostgresOptions {
        components: vec![POSTGRES_COMPONENT],
        ..PostgresOptions::new(url)
    }
}

/// A migrated database whose clock runs.
pub(crate) async fn database() -> TestDatabase {
    postgres::database(&options("")).await
}

pub(crate) async fn connect(database: &TestDatabase) -> PostgresStore {
    postgres::connect(&options(""), database).await
}

/// Makes fresh stores in databases of their own.
#[derive(Clone, Copy)]
pub(crate) struct PostgresFactory;

#[async_trait]
impl LedgerFactory for PostgresFactory {
    async fn fresh(&self) -> Box<dyn LedgerHarness> {
        Box::new(PostgresFixture::new(&options("")).await)
    }
}

#[async_trait]
impl LedgerHarness for PostgresFixture {
    fn ledger(&self) -> Arc<dyn Ledger> {
        self.postgres()
    }

    async fn another_ledger(&self) -> Arc<dyn Ledger> {
        Arc::new(self.connect().await)
    }
}
