//! Brokers that restart under a real worker: the store's record matches the broker's content.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use consign_kernel::{
    AttemptOutcome, By, ManualClock, MessageId, NewMessage, QueuePolicy, ReferenceStore,
    RetrySchedule, StateKind, Store,
};
use consign_testkit::{NatsServer, RedisServer, eventually};
use consign_worker::{QueueWork, Sink, Worker, WorkerHandle, WorkerOptions};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tokio::time::Instant;

use crate::{brokers::PATIENCE, nats, redis};

const COUNT: i64 = 500;

/// The reference store with a clock that keeps up with the real one.
fn running_store() -> Arc<dyn Store> {
    let clock = ManualClock::at(Timestamp::now());
    let store = ReferenceStore::new(clock.clone(), 7);
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(Duration::from_millis(1));
        let mut last = Instant::now();
        loop {
            let now = ticks.tick().await;
            let passed = now.saturating_duration_since(last);
            last = now;
            clock.advance(SignedDuration::try_from(passed).unwrap());
        }
    });
    Arc::new(store)
}

/// A worker that delivers messages 1 to 500, which say their numbers.
async fn deliver(store: &Arc<dyn Store>, sink: Arc<dyn Sink>) -> WorkerHandle {
    let queue: consign_kernel::QueueName = "orders".parse().unwrap();
    let policy = QueuePolicy {
        concurrency: 16,
        attempts_max: 1_000,
        retry: RetrySchedule::Fixed { delay_ms: 50 },
        ..QueuePolicy::default()
    };
    let by = By::new("test", "test");
    store.put_queue(&queue, &policy, &by).await.unwrap();
    let message = |n: i64| NewMessage::new(queue.clone(), json!({ "number": n }));
    let messages: Vec<NewMessage> = (1..=COUNT).map(message).collect();
    let enqueued = store.enqueue(&messages).await.unwrap();
    assert_eq!(enqueued[0].id, MessageId(1), "a message's number is its id");
    let work = QueueWork::new(queue, sink);
    Worker::start(store.clone(), vec![work], WorkerOptions::new("tester"))
}

async fn is_delivered(store: &dyn Store, id: i64) -> bool {
    let explanation = store.explain(MessageId(id)).await.unwrap().unwrap();
    explanation.state.kind() == StateKind::Delivered
}

async fn until_delivered(store: &dyn Store, ids: impl Iterator<Item = i64>) {
    for id in ids {
        let what = format!("message {id} is delivered");
        eventually(&what, PATIENCE, || is_delivered(store, id)).await;
    }
}

/// Checks that every message arrived, and more than once only with an attempt that explains it.
async fn explained(store: &dyn Store, found: &[i64]) {
    let mut times: BTreeMap<i64, usize> = (1..=COUNT).map(|id| (id, 0)).collect();
    for id in found {
        *times.get_mut(id).unwrap() += 1;
    }
    for (id, times) in times {
        assert!(times > 0, "message {id} is delivered but nowhere");
        let history = store.history(MessageId(id)).await.unwrap();
        let doubts = history
            .iter()
            .filter(|attempt| attempt.outcome == AttemptOutcome::Uncertain)
            .count();
        assert!(
            times <= 1 + doubts,
            "message {id}: {times} times: {history:?}"
        );
    }
}

#[tokio::test]
async fn a_worker_outlives_a_restart_of_nats() {
    let mut server = NatsServer::start().await;
    let url = server.url();
    let observer = nats::observer(std::slice::from_ref(&url)).await;
    nats::make_stream(&observer, json!({})).await;
    let store = running_store();
    let worker = deliver(&store, nats::nats_sink(&url, "").await).await;
    until_delivered(&*store, 1..=50).await;
    server.kill9();
    server.start_again().await;
    until_delivered(&*store, 1..=COUNT).await;
    worker.drain();
    worker.finished().await;
    let observer = nats::observer(std::slice::from_ref(&url)).await;
    let found = nats::stored(&observer).await;
    explained(&*store, &found).await;
    assert_eq!(found.len(), 500, "resent messages were recognised");
}

#[tokio::test]
async fn a_worker_outlives_a_restart_of_redis() {
    let mut server = RedisServer::start().await;
    let store = running_store();
    let worker = deliver(&store, redis::redis_sink(&server.url(), "").await).await;
    until_delivered(&*store, 1..=50).await;
    server.kill9();
    server.start_again().await;
    until_delivered(&*store, 1..=COUNT).await;
    worker.drain();
    worker.finished().await;
    let found = redis::stored(&mut redis::observer(&server).await).await;
    explained(&*store, &found).await;
}
