//! Wake-ups and the low-water mark.

use std::time::{Duration, Instant};

use consign_kernel::{By, Claim, NewMessage, QueueName, QueuePolicy, prelude::*};
use consign_postgres::enqueue_in;
use serde_json::json;

use crate::harness::{connect, database};

const LONG: Duration = Duration::from_secs(60);

fn queue() -> QueueName {
    "default".parse().unwrap()
}

fn message() -> NewMessage {
    NewMessage::new(queue(), json!(1))
}

/// Waits in a task until `act` has happened; answers whether it was woken and how soon.
async fn woken_by(
    act: impl AsyncFnOnce(),
    store: consign_postgres::PostgresStore,
) -> (bool, Duration) {
    let waiter = tokio::spawn(async move {
        let started = Instant::now();
        (store.wait(&queue(), LONG).await.unwrap(), started.elapsed())
    });
    act().await;
    waiter.await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_enqueue_wakes_a_worker_in_another_process() {
    let database = database().await;
    let (producer, worker) = (connect(&database).await, connect(&database).await);
    let act = async || {
        producer.enqueue(&[message()]).await.unwrap();
    };
    let (woken, after) = woken_by(act, worker).await;
    assert!(woken && after < LONG / 2, "{woken} after {after:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_notify_the_look_before_the_wait_still_finds_what_is_due() {
    let database = database().await;
    let store = connect(&database).await;
    let quiet = QueuePolicy {
        notify: false,
        ..QueuePolicy::default()
    };
    store
        .put_queue(&queue(), &quiet, &By::new("test", "test"))
        .await
        .unwrap();
    store.enqueue(&[message()]).await.unwrap();
    assert!(store.wait(&queue(), LONG).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_ends_when_a_delayed_message_is_due() {
    let database = database().await;
    let store = connect(&database).await;
    store
        .enqueue(&[message().with_delay(Duration::from_millis(300))])
        .await
        .unwrap();
    let started = Instant::now();
    assert!(store.wait(&queue(), LONG).await.unwrap());
    assert!(started.elapsed() < LONG / 2);
    assert!(
        store
            .claim(&Claim::new(queue(), "w", 1))
            .await
            .unwrap()
            .is_some()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_ends_when_a_lease_does() {
    let database = database().await;
    let store = connect(&database).await;
    store.enqueue(&[message()]).await.unwrap();
    let claim = Claim::new(queue(), "w", 1).with_ttl(Duration::from_millis(300));
    store.claim(&claim).await.unwrap().unwrap();
    assert!(store.wait(&queue(), LONG).await.unwrap());
    assert!(
        store.claim(&claim).await.unwrap().is_some(),
        "the crashed worker's message is back"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_queue_is_waited_for_no_longer_than_requested() {
    let database = database().await;
    let store = connect(&database).await;
    assert!(
        !store
            .wait(&queue(), Duration::from_millis(50))
            .await
            .unwrap()
    );
}

#[tokio::test]
async fn a_transaction_that_commits_late_is_not_hidden_by_the_low_water_mark() {
    let database = database().await;
    let store = connect(&database).await;
    let claim = Claim::new(queue(), "w", 1);
    let mut late = store.pool().begin().await.unwrap();
    let early_id = enqueue_in(&mut late, &[message()]).await.unwrap()[0].id;
    // Meanwhile later messages are enqueued and claimed: the mark moves past the early one.
    store.enqueue(&[message()]).await.unwrap();
    assert!(store.claim(&claim).await.unwrap().is_some());
    late.commit().await.unwrap();
    let lease = store
        .claim(&claim)
        .await
        .unwrap()
        .expect("found: a short look found nothing");
    assert_eq!(lease.messages[0].message.id, early_id);
}

#[tokio::test(flavor = "multi_thread")]
async fn released_and_requeued_messages_wake_a_worker_too() {
    let database = database().await;
    let store = connect(&database).await;
    store.enqueue(&[message()]).await.unwrap();
    let claim = Claim::new(queue(), "w", 1).with_ttl(LONG);
    let lease = store.claim(&claim).await.unwrap().unwrap();
    let id = lease.messages[0].message.id;
    let release = async || {
        store.release(lease.token).await.unwrap();
    };
    let (woken, after) = woken_by(release, connect(&database).await).await;
    assert!(
        woken && after < LONG / 2,
        "released: {woken} after {after:?}"
    );

    let lease = store.claim(&claim).await.unwrap().unwrap();
    let dead = consign_kernel::Report::new(id, consign_kernel::Outcome::Dead);
    store.settle(lease.token, &[dead]).await.unwrap();
    let requeue = async || {
        store
            .requeue(&[id], &By::new("test", "test"))
            .await
            .unwrap();
    };
    let (woken, after) = woken_by(requeue, connect(&database).await).await;
    assert!(
        woken && after < LONG / 2,
        "requeued: {woken} after {after:?}"
    );
}
