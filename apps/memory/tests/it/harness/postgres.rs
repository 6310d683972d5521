//! PostgreSQL: a database from a template.

use std::sync::Arc;

use async_trait::async_trait;
use consign_conformance::fixture::postgres::{self, PostgresFixture, execute};
use consign_kernel::MessageId;
use consign_memory::Logbook;
use consign_postgres::{PostgresOptions, PostgresStore};
use consign_testkit::TestDatabase;

use crate::cases::Harness;

/// A database with the engine and this app.
pub(crate) fn options(url: &str) -> PostgresOptions {
    let mut options = PostgresOptions::new(url);
    options
        .components
        .push(consign_memory::store::POSTGRES_COMPONENT);
    options
}

/// A migrated database whose clock runs.
pub(crate) async fn database() -> TestDatabase {
    postgres::database(&options("")).await
}

pub(crate) async fn connect(database: &TestDatabase) -> PostgresStore {
    postgres::connect(&options(""), database).await
}

pub(crate) async fn postgres_fixture() -> PostgresFixture {
    PostgresFixture::new(&options("")).await
}

#[async_trait]
impl Harness for PostgresFixture {
    fn book(&self) -> Arc<dyn Logbook> {
        self.postgres()
    }

    async fn another_book(&self) -> Arc<dyn Logbook> {
        Arc::new(self.connect().await)
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
        let sql = if is_broken {
            "ALTER TABLE governance.write_audit RENAME TO write_audit_away"
        } else {
            "ALTER TABLE governance.write_audit_away RENAME TO write_audit"
        };
        execute(&self.url(), sql).await;
    }
}
