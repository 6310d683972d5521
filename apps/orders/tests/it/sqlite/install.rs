//! The component on top of the engine: alone, later, and in processes that do not have it.

use consign_kernel::{By, Claim, Error, NewMessage, Outcome, QueuePolicy, Report, prelude::*};
use consign_orders::{AcceptResult, Ledger, store::sqlite_component};
use consign_sqlite::{SqliteOptions, SqliteStore, status};
use serde_json::json;

use super::{accept, bench, by, claim, entry, harness::open_without_the_app, order, report};

#[tokio::test]
async fn migrates_alone_on_top_of_the_engine() {
    let bench = bench().await;
    let options = SqliteOptions::new(bench.path()).unwrap();
    let status = status(&options.component(sqlite_component()))
        .await
        .unwrap();
    assert_eq!(status.version("orders"), 1);
    assert_eq!(bench.store.doctor().await.unwrap(), []);
}

#[tokio::test]
async fn migrates_later_into_a_database_that_has_the_engine() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("queue.db");
    let options = SqliteOptions::new(path.to_str().unwrap()).unwrap();
    let options = options.migrate_on_open(true);
    let engine = SqliteStore::open(&options).await.unwrap();
    let queue = "orders".parse().unwrap();
    let policy = QueuePolicy::default();
    engine.put_queue(&queue, &policy, &by()).await.unwrap();
    engine.close().await.unwrap();

    let store = SqliteStore::open(&options.component(sqlite_component()))
        .await
        .unwrap();
    let accepted = store.accept(&[order(1, "a")]).await.unwrap();
    assert!(
        matches!(accepted[..], [AcceptResult::New(_)]),
        "{accepted:?}"
    );
    let message = NewMessage::new(queue, json!(1));
    let refused = store.enqueue(&[message]).await.unwrap_err();
    assert_eq!(refused.code(), "invalid_input", "its hook is there");
}

fn is_refused<T: std::fmt::Debug>(answer: consign_kernel::Result<T>) {
    match answer.unwrap_err() {
        Error::AppNotEnabled { queue, app } => {
            assert_eq!((queue.as_str(), app.as_str()), ("orders", "orders"));
        }
        error => panic!("{error}"),
    }
}

#[tokio::test]
async fn a_process_without_the_app_does_not_work_its_queue() {
    let bench = bench().await;
    let dead = accept(&bench, 1).await;
    report(&bench, Outcome::Dead, Some("BROKER_DOWN"), None).await;
    let leased = accept(&bench, 2).await;
    let lease = claim(&bench.store).await;
    let held = accept(&bench, 3).await;
    bench.store.hold(&[held], &by()).await.unwrap();
    let ready = accept(&bench, 4).await;
    let before = entry(&bench, 1).await;

    let without = open_without_the_app(&bench).await;
    let queue: consign_kernel::QueueName = "orders".parse().unwrap();
    let by = By::new("ada", "a test");
    is_refused(without.claim(&Claim::new(queue.clone(), "w", 1)).await);
    is_refused(
        without
            .enqueue(&[NewMessage::new(queue.clone(), json!(1))])
            .await,
    );
    let reports = [Report::delivered(leased)];
    is_refused(without.settle(lease.token, &reports).await);
    is_refused(without.release(lease.token).await);
    is_refused(without.requeue(&[dead], &by).await);
    is_refused(without.unhold(&[held], &by).await);
    is_refused(without.hold(&[ready], &by).await);
    is_refused(
        without
            .put_queue(&queue, &QueuePolicy::default(), &by)
            .await,
    );
    bench.clock.advance(jiff::SignedDuration::from_hours(1));
    let expired = without.expire(10).await.unwrap();
    assert_eq!(expired.leases, 0, "left to a process that has the app");
    is_refused(without.record_late(lease.token, &reports).await);
    assert_eq!(entry(&bench, 1).await, before);
    without.pause(&queue, &by).await.unwrap();

    let expired = bench.store.expire(10).await.unwrap();
    assert_eq!(expired.leases, 1);
    assert_eq!(bench.store.doctor().await.unwrap(), []);
}
