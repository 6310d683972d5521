//! Other writers on the same file: waiting for them, and giving up.

use std::{sync::Arc, time::Duration};

use consign_kernel::{Certainty, Claim, prelude::*};
use consign_sqlite::SqliteStore;
use sqlx::Connection;

use crate::harness::{claim, drain, fixture, messages, queue};

#[tokio::test]
async fn a_database_that_stays_busy_is_unavailable_and_nothing_was_written() {
    let bench = fixture().await;
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
    assert_eq!(
        store.queues(None, 1_000).await.unwrap().len(),
        1,
        "reads go on"
    );

    transaction.rollback().await.unwrap();
    store.enqueue(&messages(1)).await.unwrap();
    assert_eq!(drain(&store, 10).await.len(), 1, "only the last one counts");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_of_writers_loses_nothing() {
    let bench = fixture().await;
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

#[tokio::test]
async fn a_failing_operation_fails_alone() {
    let bench = fixture().await;
    let store = &bench.store;
    let broken = "broken".parse().unwrap();
    let by = consign_kernel::By::new("ada", "breaking a queue");
    store
        .put_queue(&broken, &Default::default(), &by)
        .await
        .unwrap();
    let mut connection = bench.connect().await;
    let ghost = "INSERT INTO ready (queue, due_at, isolated, ids, tries, attempts) \
                 VALUES ('broken', 0, 0, '[999]', '[0]', '[0]')";
    sqlx::query(ghost).execute(&mut connection).await.unwrap();

    // All are queued before the writer gets to any, so they share a transaction.
    let claim_broken = Claim::new(broken, "worker-1", 1);
    for _ in 0..20 {
        let (first, second) = (messages(1), messages(1));
        let (first, failed, second) = tokio::join!(
            store.enqueue(&first),
            store.claim(&claim_broken),
            store.enqueue(&second)
        );
        assert_eq!(failed.unwrap_err().code(), "corrupt");
        assert_ne!(first.unwrap()[0].id, second.unwrap()[0].id);
    }
    assert_eq!(drain(store, 100).await.len(), 40);
    let (lost, refused) = (claim(0), Claim::new(queue(), "worker-1", 1));
    let (lost, refused) = tokio::join!(store.claim(&lost), store.claim(&refused));
    assert_eq!(lost.unwrap_err().code(), "invalid_input");
    assert_eq!(refused.unwrap(), None);
}
