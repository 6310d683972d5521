//! The stores tests run over.

use std::{sync::Arc, time::Duration};

use consign_kernel::{ManualClock, ReferenceStore};
use consign_postgres::{PostgresOptions, PostgresStore, migrate};
use consign_sqlite::{SqliteOptions, SqliteStore};
use consign_testkit::{TestDatabase, fingerprint};
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

fn start() -> Timestamp {
    "2027-01-15T08:00:00Z".parse().unwrap()
}

/// The reference store with a clock that the test sets.
pub(crate) fn frozen_reference() -> (ReferenceStore, ManualClock) {
    let clock = ManualClock::at(start());
    (ReferenceStore::new(clock.clone(), 7), clock)
}

/// The reference store with a clock that keeps up with the real one.
pub(crate) fn running_reference() -> ReferenceStore {
    let (store, clock) = frozen_reference();
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(Duration::from_millis(1));
        let mut last = Instant::now();
        loop {
            let now = ticks.tick().await;
            let passed = now.saturating_duration_since(last);
            last = now;
            clock.advance(SignedDuration::from_micros(passed.as_micros() as i64));
        }
    });
    store
}

/// An SQLite file that vanishes with the folder.
pub(crate) async fn sqlite() -> (Arc<SqliteStore>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("queue.db");
    let options = SqliteOptions::new(path.to_str().unwrap()).unwrap();
    let store = SqliteStore::open(&options.migrate_on_open(true)).await;
    (Arc::new(store.unwrap()), folder)
}

/// A migrated PostgreSQL database.
pub(crate) async fn postgres_database() -> TestDatabase {
    let name = format!(
        "consign_{}",
        fingerprint(
            PostgresOptions::new("")
                .migrations()
                .into_iter()
                .map(|m| m.sql)
        )
    );
    TestDatabase::from_template(&name, async |url: &str| {
        migrate(&PostgresOptions::new(url)).await.unwrap();
    })
    .await
}

pub(crate) async fn postgres(url: &str) -> Arc<PostgresStore> {
    let store = PostgresStore::connect(&PostgresOptions::new(url)).await;
    Arc::new(store.unwrap())
}
