//! SQLite: a file of its own, a clock moved by hand.

use std::sync::Arc;

use async_trait::async_trait;
use consign_conformance::fixture::sqlite::SqliteFixture;
use consign_kernel::MessageId;
use consign_memory::{Logbook, store::sqlite_component};

use crate::cases::Harness;

pub(crate) async fn sqlite_fixture() -> SqliteFixture {
    SqliteFixture::new(|options| options.component(sqlite_component())).await
}

#[async_trait]
impl Harness for SqliteFixture {
    fn book(&self) -> Arc<dyn Logbook> {
        Arc::new(self.store.clone())
    }

    async fn another_book(&self) -> Arc<dyn Logbook> {
        Arc::new(self.open().await)
    }

    async fn lose_audits(&self, outbox_id: MessageId) {
        let mut connection = self.connect().await;
        let name = "write_audit_delete";
        let guard: String = sqlx::query_scalar("SELECT sql FROM sqlite_schema WHERE name = ?1")
            .bind(name)
            .fetch_one(&mut connection)
            .await
            .unwrap();
        let statements = format!(
            "BEGIN IMMEDIATE; DROP TRIGGER {name}; DELETE FROM write_audit WHERE outbox_id = \
             {outbox_id}; {guard}; COMMIT"
        );
        let lost = sqlx::raw_sql(sqlx::AssertSqlSafe(statements)).execute(&mut connection);
        lost.await.unwrap();
    }

    async fn break_audits(&self, is_broken: bool) {
        let statement = if is_broken {
            "CREATE TRIGGER audits_broken BEFORE INSERT ON write_audit \
                 BEGIN SELECT raise(ABORT, 'audits are broken'); END"
        } else {
            "DROP TRIGGER audits_broken"
        };
        let mut connection = self.connect().await;
        let done = sqlx::raw_sql(statement).execute(&mut connection);
        done.await.unwrap();
    }
}
