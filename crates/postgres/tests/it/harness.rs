//! Fresh PostgreSQL databases with the engine and every app.

use async_trait::async_trait;
pub(crate) use consign_conformance::fixture::postgres::execute;
use consign_conformance::{
    Factory, Harness,
    fixture::postgres::{self, PostgresFixture},
};
use consign_postgres::{PostgresOptions, PostgresStore};
use consign_testkit::TestDatabase;

/// The engine and every app.
pub(crate) fn options(url: &str) -> PostgresOptions {
    let mut options = PostgresOptions::new(url);
    options.components.extend([
        consign_orders::store::POSTGRES_COMPONENT,
        consign_memory::store::POSTGRES_COMPONENT,
        consign_scm_app::POSTGRES_COMPONENT,
    ]);
    options
}

/// A migrated database whose clock runs.
pub(crate) async fn database() -> TestDatabase {
    postgres::database(&options("")).await
}

/// A migrated database with a manual clock.
pub(crate) async fn frozen_database() -> TestDatabase {
    postgres::frozen_database(&options("")).await
}

pub(crate) async fn connect(database: &TestDatabase) -> PostgresStore {
    postgres::connect(&options(""), database).await
}

/// Makes stores for the conformance suite.
#[derive(Clone, Copy)]
pub(crate) struct PostgresFactory {
    /// Off where every claim must find exactly the oldest batch, even after the clock went back and
    /// forth; see the low-water mark in the store.
    pub(crate) low_water: bool,
}

#[async_trait]
impl Factory for PostgresFactory {
    async fn fresh(&self) -> Box<dyn Harness> {
        let options = PostgresOptions {
            low_water: self.low_water,
            ..options("")
        };
        Box::new(PostgresFixture::new(&options).await)
    }
}
