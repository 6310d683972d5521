//! A worker holds no more bytes of messages than it may, and one queue cannot take the share of another.

use std::sync::Arc;

use consign_kernel::{MessageId, NewMessage, QueuePolicy, StateKind, Store};
use consign_testkit::eventually;
use consign_worker::{QueueWork, Sink, Worker, WorkerOptions};
use serde_json::json;

use crate::support::{
    Gate, SOON, ScriptedSink, all_are, end, make_queue, options, queue, running_reference,
    work_with,
};

/// Bytes of each message's payload, besides a few.
const BYTES: usize = 1_000;

fn policy(claim_max_bytes: usize) -> QueuePolicy {
    QueuePolicy {
        claim_max_bytes,
        concurrency: 100,
        ..QueuePolicy::default()
    }
}

async fn enqueue(store: &dyn Store, name: &str, count: usize) -> Vec<MessageId> {
    let message = NewMessage::new(queue(name), json!("x".repeat(BYTES)));
    let enqueued = store.enqueue(&vec![message; count]).await.unwrap();
    enqueued.iter().map(|enqueued| enqueued.id).collect()
}

async fn leased(store: &dyn Store, name: &str) -> usize {
    let leases = store.leases(1_000).await.unwrap();
    let leases = leases.iter().filter(|lease| lease.queue == queue(name));
    leases.map(|lease| lease.ids.len()).sum()
}

#[tokio::test]
async fn a_queue_holds_no_more_bytes_than_its_policy_allows() {
    let store: Arc<dyn Store> = Arc::new(running_reference());
    make_queue(&*store, "mail", &policy(10 * BYTES + 500)).await;
    let ids = enqueue(&*store, "mail", 100).await;
    let gate = Gate::default();
    let sink = ScriptedSink::gated(&gate);
    let worker = work_with(&store, "mail", &sink, options());
    eventually("it has what it may hold", SOON, || async {
        sink.now() == 10
    })
    .await;
    assert_eq!(leased(&*store, "mail").await, 10);
    gate.open();
    all_are(&*store, &ids, StateKind::Delivered).await;
    assert!(sink.most() <= 11, "{}", sink.most());
    end(&worker, &*store).await;
}

#[tokio::test]
async fn all_queues_together_hold_no_more_bytes_than_the_worker_may() {
    let store: Arc<dyn Store> = Arc::new(running_reference());
    let options = WorkerOptions {
        claimed_max_bytes: 10 * BYTES + 500,
        ..options()
    };
    let gate = Gate::default();
    let mut work = Vec::new();
    let mut ids = Vec::new();
    for name in ["one", "two", "three"] {
        make_queue(&*store, name, &policy(8 * BYTES)).await;
        ids.extend(enqueue(&*store, name, 40).await);
        let sink = ScriptedSink::gated(&gate) as Arc<dyn Sink>;
        work.push(QueueWork::new(queue(name), sink));
    }
    let worker = Worker::start(Arc::clone(&store), work, options);
    let held = || async {
        let (one, two) = (leased(&*store, "one").await, leased(&*store, "two").await);
        [one, two, leased(&*store, "three").await]
    };
    eventually("every queue has something", SOON, || async {
        held().await.iter().all(|count| *count > 0)
    })
    .await;
    let counts = held().await;
    let total: usize = counts.iter().sum();
    assert!(total <= 10 + 2, "one message each beyond it: {counts:?}");
    gate.open();
    all_are(&*store, &ids, StateKind::Delivered).await;
    end(&worker, &*store).await;
}

#[tokio::test]
async fn messages_beyond_every_limit_are_delivered_one_by_one() {
    let store: Arc<dyn Store> = Arc::new(running_reference());
    let options = WorkerOptions {
        claimed_max_bytes: 10,
        ..options()
    };
    make_queue(&*store, "mail", &policy(1)).await;
    let ids = enqueue(&*store, "mail", 20).await;
    let sink = ScriptedSink::yielding();
    let worker = work_with(&store, "mail", &sink, options);
    all_are(&*store, &ids, StateKind::Delivered).await;
    assert_eq!(sink.most(), 1);
    end(&worker, &*store).await;
}
