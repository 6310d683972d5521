//! Other writers on the same file: waiting for them, and giving up.

use std::{sync::Arc, time::Duration};

use consign_kernel::{Certainty, Store};
use consign_sqlite::SqliteStore;
use sqlx::Connection;

use crate::harness::{Bench, drain, messages};

#[tokio::test]
async fn a_database_that_stays_busy_is_unavailable_and_nothing_was_written() {
    let bench = Bench::new().await;
    let options = bench.options().busy_timeout(Duration::from_millis(50));
    let store = SqliteStore::open(&options).await.unwrap();
    let mut other = bench.connect().await;
    let transaction = other.begin_with("BEGIN IMMEDIATE").await.unwrap();

    for _ in 0..2 {
        let error = store.enqueue(&messages(1)).await.unwrap_err();
        assert_eq!(error.code(), "database_unavailable", "{error}");
        assert_eq!(error.certainty(), Certainty::Definite);
        assert!(error.is_retryable());
    }
    assert_eq!(store.lanes().await.unwrap().len(), 1, "reads go on");

    transaction.rollback().await.unwrap();
    store.enqueue(&messages(1)).await.unwrap();
    assert_eq!(drain(&store, 10).await.len(), 1, "only the last one counts");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_of_writers_loses_nothing() {
    let bench = Bench::new().await;
    let mut stores = Vec::new();
    for _ in 0..4 {
        stores.push(Arc::new(bench.open().await));
    }
    let tasks = (0..16).map(|n| {
        let store = Arc::clone(&stores[n % stores.len()]);
        tokio::spawn(async move {
            let mut seen = 0;
            for _ in 0..10 {
                store.enqueue(&messages(3)).await.unwrap();
                seen += drain(&store, 2).await.len();
            }
            seen
        })
    });
    let mut seen = 0;
    for task in tasks.collect::<Vec<_>>() {
        seen += task.await.unwrap();
    }
    assert_eq!(seen, 16 * 10 * 3, "each message once");
    assert_eq!(bench.store.doctor().await.unwrap(), []);
}
