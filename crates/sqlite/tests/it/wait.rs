//! Waiting: woken by this process, found by polling when another one wrote.

use std::time::Duration;

use consign_kernel::{By, QueuePolicy, prelude::*};
use consign_sqlite::SqliteStore;
use jiff::SignedDuration;
use tokio::time::{Instant, timeout};

use crate::harness::{fixture, messages, queue};

const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn an_enqueue_wakes_who_waits() {
    let bench = fixture().await;
    // Polling does not find it: only the wake-up can.
    let options = bench.options().poll_interval(LONG);
    let store = SqliteStore::open(&options).await.unwrap();
    let queue = queue();
    let waiting = store.wait(&queue, LONG);
    let enqueueing = async {
        tokio::task::yield_now().await;
        store.enqueue(&messages(1)).await.unwrap();
    };
    let (woken, ()) = tokio::join!(timeout(LONG / 2, waiting), enqueueing);
    assert!(woken.unwrap().unwrap());
}

#[tokio::test]
async fn an_enqueue_of_another_instance_is_noticed() {
    let bench = fixture().await;
    let other = bench.open().await;
    // The same for a queue without `notify`.
    let by = By::new("ada", "quiet, please");
    let quiet = QueuePolicy {
        notify: false,
        ..QueuePolicy::default()
    };
    other.put_queue(&queue(), &quiet, &by).await.unwrap();
    let queue = queue();
    let waiting = bench.store.wait(&queue, LONG);
    let enqueueing = async {
        tokio::task::yield_now().await;
        other.enqueue(&messages(1)).await.unwrap();
    };
    let (woken, ()) = tokio::join!(timeout(LONG / 2, waiting), enqueueing);
    assert!(woken.unwrap().unwrap());
}

#[tokio::test]
async fn a_wait_without_work_ends_in_time() {
    let bench = fixture().await;
    let later = messages(1).remove(0).with_delay(Duration::from_secs(3_600));
    bench.store.enqueue(&[later]).await.unwrap();
    let begun = Instant::now();
    let woken = bench
        .store
        .wait(&queue(), Duration::from_millis(30))
        .await
        .unwrap();
    assert!(!woken, "what is due in an hour is no work");
    assert!(begun.elapsed() < LONG / 2);

    bench.clock.advance(SignedDuration::from_hours(1));
    assert!(bench.store.wait(&queue(), LONG).await.unwrap(), "now it is");
    let by = By::new("ada", "a break");
    bench.store.pause(&queue(), &by).await.unwrap();
    let woken = bench
        .store
        .wait(&queue(), Duration::from_millis(30))
        .await
        .unwrap();
    assert!(!woken, "a paused queue has none");
}
