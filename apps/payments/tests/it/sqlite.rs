//! Payments in SQLite: a file of its own for each test, a clock moved by hand.

mod plans;
mod rules;
mod schema;
mod tables;

use std::sync::Arc;

use async_trait::async_trait;
use consign_conformance::fixture::sqlite::SqliteFixture;
use consign_payments::{
    NewPayment, Payments,
    store::{enqueue_in_sqlite, sqlite_component},
};
use sqlx::Connection;

use crate::cases::PaymentsHarness;

async fn fixture() -> SqliteFixture {
    SqliteFixture::new(|options| options.component(sqlite_component())).await
}

#[async_trait]
impl PaymentsHarness for SqliteFixture {
    fn payments(&self) -> Arc<dyn Payments> {
        Arc::new(self.store.clone())
    }

    async fn another_payments(&self) -> Arc<dyn Payments> {
        Arc::new(self.open().await)
    }

    async fn enqueue_payments_and_roll_back(&self, payments: &[NewPayment]) {
        let mut connection = self.connect().await;
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.unwrap();
        let enqueued = enqueue_in_sqlite(&self.store, &mut transaction, payments).await;
        assert_eq!(enqueued.unwrap().len(), payments.len());
        transaction.rollback().await.unwrap();
    }
}
