//! Orders that come at once are accepted at once.

use std::sync::Arc;

use consign_kernel::{By, QueuePolicy, prelude::*};
use consign_orders::{Answer, queue_policy};
use consign_testkit::eventually;
use tokio::task::JoinHandle;

use crate::support::{Bench, SOON, order, place, queue, quick};

fn spawn(bench: &Bench, key: &str, body: String) -> JoinHandle<Answer> {
    let (service, key) = (Arc::clone(&bench.service), key.to_owned());
    tokio::spawn(async move { place(&service, &key, &body, None).await })
}

/// Returns once so many calls of the ledger have begun.
async fn accepts(bench: &Bench, count: usize) {
    eventually("the ledger is called", SOON, async || {
        bench.ledger.accepts().len() == count
    })
    .await;
}
#[tokio::test]
async fn fifty_of_one_key_are_one_order() {
    let bench = Bench::new(quick()).await;
    bench.ledger.open(false);
    let calls: Vec<_> = (0..50)
        .map(|_| spawn(&bench, "key-0050", order("key-0050", &[])))
        .collect();
    accepts(&bench, 1).await;
    bench.ledger.open(true);
    let mut statuses = Vec::new();
    for call in calls {
        statuses.push(call.await.unwrap().status);
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [vec![200; 49], vec![201]].concat());
    assert_eq!(
        (
            bench.count("idempo_ledger").await,
            bench.count("message").await
        ),
        (1, 1)
    );
}

#[tokio::test]
async fn what_waits_is_accepted_together_but_not_without_end() {
    let bench = Bench::new(quick()).await;
    bench.ledger.open(false);
    let first = spawn(&bench, "key-first", order("key-first", &[]));
    accepts(&bench, 1).await;
    let mut calls = vec![first];
    for number in 0..100 {
        let key = format!("key-{number:04}");
        calls.push(spawn(&bench, &key, order(&key, &[])));
    }
    // On one thread: all that were spawned have run once then, up to the door.
    tokio::task::yield_now().await;
    bench.ledger.open(true);
    for call in calls {
        assert_eq!(call.await.unwrap().status, 201);
    }
    let accepts = bench.ledger.accepts();
    assert_eq!(accepts, [1, 64, 36], "an order never waits for others");
    assert_eq!(bench.count("message").await, 101);
}

#[tokio::test]
async fn one_that_the_store_refuses_does_not_take_its_neighbours_along() {
    let bench = Bench::new(quick()).await;
    let policy = QueuePolicy {
        payload_max_bytes: 2_000,
        ..queue_policy(&bench.options)
    };
    let by = By::new("test", "small orders only");
    bench.store.put_queue(&queue(), &policy, &by).await.unwrap();
    bench.ledger.open(false);
    let first = spawn(&bench, "key-first", order("key-first", &[]));
    accepts(&bench, 1).await;
    let long = order("key-long", &[]).replace('{', &format!("{{{}", " ".repeat(2_000)));
    let calls = [
        spawn(&bench, "key-0001", order("key-0001", &[])),
        spawn(&bench, "key-long", long),
        spawn(&bench, "key-0002", order("key-0002", &[])),
    ];
    tokio::task::yield_now().await;
    bench.ledger.open(true);
    assert_eq!(first.await.unwrap().status, 201);
    let mut statuses = Vec::new();
    for call in calls {
        statuses.push(call.await.unwrap().status);
    }
    assert_eq!(statuses, [201, 500, 201]);
    assert_eq!(
        bench.ledger.accepts(),
        [1, 3, 1, 1, 1],
        "together, then each alone"
    );
    assert_eq!(bench.count("message").await, 3);
}

#[tokio::test]
async fn a_disconnected_caller_does_not_affect_others() {
    let bench = Bench::new(quick()).await;
    bench.ledger.open(false);
    let gone_early = spawn(&bench, "key-early", order("key-early", &[]));
    accepts(&bench, 1).await;
    let gone = spawn(&bench, "key-gone", order("key-gone", &[]));
    let stays = spawn(&bench, "key-stays", order("key-stays", &[]));
    tokio::task::yield_now().await;
    gone_early.abort();
    gone.abort();
    gone.await.unwrap_err();
    bench.ledger.open(true);
    assert_eq!(stays.await.unwrap().status, 201);
    assert!(
        bench.entry("key-gone").await.is_none(),
        "its caller stopped waiting, so it was not started"
    );
    // A started call continues; a repeated request returns its result.
    let again = bench.place("key-early", &[]).await;
    assert_eq!(again.status, 200, "{again:?}");
}
