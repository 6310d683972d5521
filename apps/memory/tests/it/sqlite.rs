//! The logbook of the memory gateway, as far as it is SQLite's own: what plain SQL may do, and that
//! every trigger that is broken is caught. The rules themselves are conformance cases.

mod broken;
mod doctor;
mod guards;
mod index;
mod plans;

use consign_kernel::{By, QueuePolicy, prelude::*};
use sqlx::SqliteConnection;

use crate::harness::{SqliteFixture, sqlite_fixture};

/// A fresh store with the queue `memory`.
pub(crate) async fn bench() -> SqliteFixture {
    let bench = sqlite_fixture().await;
    let by = By::new("ada", "testing");
    let queue = consign_memory::queue();
    let policy = QueuePolicy::default();
    bench.store.put_queue(&queue, &policy, &by).await.unwrap();
    bench
}

/// Runs statements; answers with the database's words if it refuses.
pub(crate) async fn execute(
    connection: &mut SqliteConnection,
    statements: &str,
) -> Result<(), String> {
    let done = sqlx::raw_sql(sqlx::AssertSqlSafe(statements.to_owned()))
        .execute(connection)
        .await;
    done.map(drop).map_err(|error| error.to_string())
}
