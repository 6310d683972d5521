//! Fresh PostgreSQL databases with the engine and payments, and a clock that tests can move.

use std::sync::Arc;

use async_trait::async_trait;
pub(super) use consign_conformance::fixture::postgres::execute;
use consign_conformance::fixture::postgres::{self, PostgresFixture};
use consign_payments::{
    NewPayment, Payments,
    store::{POSTGRES_COMPONENT, enqueue_in_postgres},
};
use consign_postgres::{PostgresOptions, PostgresStore};
use consign_testkit::TestDatabase;

use crate::cases::PaymentsHarness;

/// The engine and payments, nothing else.
pub(super) fn options(url: impl Into<String>) -> PostgresOptions {
    PostgresOptions {
        components: vec![POSTGRES_COMPONENT],
        ..PostgresOptions::new(url)
    }
}

/// A migrated database whose clock runs.
pub(super) async fn database() -> TestDatabase {
    postgres::database(&options("")).await
}

/// A migrated database whose clock the test sets.
pub(super) async fn frozen_database() -> TestDatabase {
    postgres::frozen_database(&options("")).await
}

pub(super) async fn connect(database: &TestDatabase) -> PostgresStore {
    postgres::connect(&options(""), database).await
}

/// A store over its own database, whose clock the test sets.
pub(super) async fn fixture() -> PostgresFixture {
    PostgresFixture::new(&options("")).await
}

#[async_trait]
impl PaymentsHarness for PostgresFixture {
    fn payments(&self) -> Arc<dyn Payments> {
        self.postgres()
    }

    async fn another_payments(&self) -> Arc<dyn Payments> {
        Arc::new(self.connect().await)
    }

    async fn enqueue_payments_and_roll_back(&self, payments: &[NewPayment]) {
        let mut tx = self.postgres().pool().begin().await.unwrap();
        let enqueued = enqueue_in_postgres(&mut tx, payments).await.unwrap();
        assert_eq!(enqueued.len(), payments.len());
        tx.rollback().await.unwrap();
    }
}
