//! Fixtures of the worker's tests.

mod faulty;
mod recorder;
mod sinks;
mod stores;

use std::{sync::Arc, time::Duration};

use consign_kernel::{
    Attempt, AttemptOutcome, By, MessageId, NewMessage, QueueName, QueuePolicy, StateKind, Store,
};
use consign_testkit::eventually;
use consign_worker::{Delivery, QueueWork, Sink, Summary, Worker, WorkerHandle, WorkerOptions};
use serde_json::{Value, json};

pub(crate) use faulty::FaultyStore;
pub(crate) use recorder::{MetricValues, TraceLog};
pub(crate) use sinks::{Gate, ScriptedSink, down};
pub(crate) use stores::{frozen_reference, postgres, postgres_database, running_reference, sqlite};

/// Generous: a busy machine must not fail a test.
pub(crate) const SOON: Duration = Duration::from_secs(20);

pub(crate) fn queue(name: &str) -> QueueName {
    name.parse().unwrap()
}

pub(crate) fn by() -> By {
    By::new("test", "test")
}

/// A queue with this policy.
pub(crate) async fn make_queue(store: &dyn Store, name: &str, policy: &QueuePolicy) {
    store.put_queue(&queue(name), policy, &by()).await.unwrap();
}

/// Enqueues messages numbered from 0; answers with their ids.
pub(crate) async fn enqueue(store: &dyn Store, name: &str, count: usize) -> Vec<MessageId> {
    let message = |n: usize| NewMessage::new(queue(name), json!({ "n": n }));
    let messages: Vec<NewMessage> = (0..count).map(message).collect();
    let mut ids = Vec::new();
    for chunk in messages.chunks(500) {
        let enqueued = store.enqueue(chunk).await.unwrap();
        ids.extend(enqueued.iter().map(|enqueued| enqueued.id));
    }
    ids
}

/// The number of a message that [`enqueue`] made.
pub(crate) fn number(delivery: &Delivery) -> Option<u64> {
    let payload: Value = delivery.message.payload.read().unwrap();
    payload["n"].as_u64()
}

/// Options for tests: quick to look, quick to end.
pub(crate) fn options() -> WorkerOptions {
    WorkerOptions {
        grace: Duration::from_secs(10),
        poll_min: Duration::from_millis(2),
        poll_max: Duration::from_millis(10),
        policy_refresh: Duration::from_millis(50),
        ..WorkerOptions::new("tester")
    }
}

/// A worker on one queue with default test options.
pub(crate) fn work(store: &Arc<dyn Store>, name: &str, sink: &Arc<ScriptedSink>) -> WorkerHandle {
    work_with(store, name, sink, options())
}

pub(crate) fn work_with(
    store: &Arc<dyn Store>,
    name: &str,
    sink: &Arc<ScriptedSink>,
    options: WorkerOptions,
) -> WorkerHandle {
    let work = QueueWork::new(queue(name), Arc::clone(sink) as Arc<dyn Sink>);
    Worker::start(Arc::clone(store), vec![work], options)
}

/// Where a message is.
pub(crate) async fn state(store: &dyn Store, id: MessageId) -> StateKind {
    let explanation = store.explain(id).await.unwrap().unwrap();
    explanation.state.kind()
}

/// Returns once every message is in this state.
pub(crate) async fn all_are(store: &dyn Store, ids: &[MessageId], kind: StateKind) {
    for id in ids {
        eventually(&format!("message {id} is {kind:?}"), SOON, || async {
            state(store, *id).await == kind
        })
        .await;
    }
}

/// The outcomes and codes of a message's attempts.
pub(crate) async fn attempts(
    store: &dyn Store,
    id: MessageId,
) -> Vec<(AttemptOutcome, Option<String>)> {
    let history: Vec<Attempt> = store.history(id).await.unwrap();
    let pair = |attempt: Attempt| (attempt.outcome, attempt.code);
    history.into_iter().map(pair).collect()
}

/// Ends a worker, and expects the store to be in order.
pub(crate) async fn end(worker: &WorkerHandle, store: &dyn Store) -> Summary {
    worker.drain();
    let summary = tokio::time::timeout(SOON, worker.finished()).await.unwrap();
    assert_eq!(
        store.doctor().await.unwrap(),
        vec![],
        "the store is in order"
    );
    assert_eq!(store.leases(10).await.unwrap(), vec![], "no lease is left");
    summary
}
