//! Everything arrives, once, within the bounds.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use consign_kernel::{AttemptOutcome, NewMessage, QueuePolicy, StateKind, Store};
use consign_testkit::eventually;
use consign_worker::Verdict;
use serde_json::json;

use crate::support::{
    Gate, SOON, ScriptedSink, all_are, attempts, end, enqueue, make_queue, number, options,
    postgres, postgres_database, queue, running_reference, sqlite, work, work_with,
};

async fn everything_arrives_once(store: Arc<dyn Store>, sink: Arc<ScriptedSink>, count: usize) {
    make_queue(&*store, "mail", &QueuePolicy::default()).await;
    let ids = enqueue(&*store, "mail", count).await;
    let worker = work(&store, "mail", &sink);
    all_are(&*store, &ids, StateKind::Delivered).await;
    assert_eq!(sink.seen_ids(), ids, "each message once");
    let summary = end(&worker, &*store).await;
    assert_eq!(summary.delivered, count as u64);
    for id in &ids[..5] {
        assert_eq!(
            attempts(&*store, *id).await,
            [(AttemptOutcome::Delivered, None)]
        );
    }
}

#[tokio::test]
async fn everything_arrives_once_over_the_reference_store() {
    let store = Arc::new(running_reference());
    everything_arrives_once(store.clone(), ScriptedSink::willing(), 600).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_arrives_once_over_sqlite() {
    let (store, _folder) = sqlite().await;
    everything_arrives_once(store, ScriptedSink::yielding(), 2_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_arrives_once_over_postgres() {
    let database = postgres_database().await;
    let store = postgres(database.url()).await;
    everything_arrives_once(store, ScriptedSink::yielding(), 2_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_workers_share_a_queue_without_a_duplicate() {
    let (store, _folder) = sqlite().await;
    let store: Arc<dyn Store> = store;
    make_queue(&*store, "mail", &QueuePolicy::default()).await;
    let ids = enqueue(&*store, "mail", 3_000).await;
    let sink = ScriptedSink::yielding();
    let (one, two) = (work(&store, "mail", &sink), work(&store, "mail", &sink));
    all_are(&*store, &ids, StateKind::Delivered).await;
    assert_eq!(sink.seen_ids(), ids);
    one.drain();
    let summary = one.finished().await;
    let delivered = summary.delivered + end(&two, &*store).await.delivered;
    assert_eq!(delivered, 3_000);
}

#[tokio::test]
async fn a_process_without_resources_burns_no_tries() {
    let store: Arc<dyn Store> = Arc::new(running_reference());
    let policy = QueuePolicy {
        attempts_max: 1,
        ..QueuePolicy::default()
    };
    make_queue(&*store, "mail", &policy).await;
    let is_short = Arc::new(AtomicBool::new(true));
    let told = Arc::clone(&is_short);
    let sink = ScriptedSink::new(move |_| {
        let is_short = told.load(SeqCst);
        async move {
            if is_short {
                Verdict::local("Too many open files (os error 24)")
            } else {
                Verdict::delivered()
            }
        }
    });
    let ids = enqueue(&*store, "mail", 3).await;
    let worker = work(&store, "mail", &sink);
    eventually("all were tried", SOON, || async { sink.seen().len() >= 3 }).await;
    for id in &ids {
        assert_eq!(attempts(&*store, *id).await, [], "no try is counted");
    }
    is_short.store(false, SeqCst);
    all_are(&*store, &ids, StateKind::Delivered).await;
    for id in &ids {
        let expected = [(AttemptOutcome::Delivered, None)];
        assert_eq!(attempts(&*store, *id).await, expected);
    }
    end(&worker, &*store).await;
}

#[tokio::test]
async fn no_more_deliveries_at_once_than_policy_allows() {
    let store: Arc<dyn Store> = Arc::new(running_reference());
    let policy = QueuePolicy {
        concurrency: 7,
        ..QueuePolicy::default()
    };
    make_queue(&*store, "mail", &policy).await;
    let gate = Gate::default();
    let sink = ScriptedSink::gated(&gate);
    let ids = enqueue(&*store, "mail", 50).await;
    let worker = work(&store, "mail", &sink);
    eventually("all slots are taken", SOON, || async { sink.now() == 7 }).await;
    assert_eq!(worker.status().queues[0].in_flight, 7);
    assert_eq!(worker.status().queues[0].concurrency, 7);
    gate.open();
    all_are(&*store, &ids, StateKind::Delivered).await;
    assert_eq!(sink.most(), 7);
    end(&worker, &*store).await;
}

#[tokio::test]
async fn a_slow_delivery_does_not_hold_up_the_records_of_its_neighbours() {
    let store: Arc<dyn Store> = Arc::new(running_reference());
    // Only the gate ends the slow one.
    let policy = QueuePolicy {
        timeout_ms: 600_000,
        ..QueuePolicy::default()
    };
    make_queue(&*store, "mail", &policy).await;
    let gate = Gate::default();
    let sink = ScriptedSink::new({
        let gate = gate.clone();
        move |delivery| {
            let gate = gate.clone();
            async move {
                if delivery.message.payload == json!({"n": 0}) {
                    gate.passed().await;
                }
                Verdict::delivered()
            }
        }
    });
    let ids = enqueue(&*store, "mail", 10).await;
    let worker = work(&store, "mail", &sink);
    all_are(&*store, &ids[1..], StateKind::Delivered).await;
    all_are(&*store, &ids[..1], StateKind::Leased).await;
    gate.open();
    all_are(&*store, &ids, StateKind::Delivered).await;
    end(&worker, &*store).await;
}

#[tokio::test]
async fn a_panic_fails_only_its_message() {
    let store: Arc<dyn Store> = Arc::new(running_reference());
    let policy = QueuePolicy {
        attempts_max: 1,
        ..QueuePolicy::default()
    };
    make_queue(&*store, "mail", &policy).await;
    // One panics at once, one after a pause: on the quick path and on the slow one.
    let sink = ScriptedSink::new(|delivery| async move {
        match number(&delivery) {
            Some(3) => panic!("overloaded by three"),
            Some(5) => {
                tokio::task::yield_now().await;
                panic!("overloaded by {}", "five")
            }
            _ => Verdict::delivered(),
        }
    });
    let ids = enqueue(&*store, "mail", 10).await;
    let worker = work(&store, "mail", &sink);
    for (index, text) in [(3, "overloaded by three"), (5, "overloaded by five")] {
        all_are(&*store, &ids[index..=index], StateKind::Dead).await;
        let history = store.history(ids[index]).await.unwrap();
        assert_eq!(history[0].outcome, AttemptOutcome::Uncertain);
        assert_eq!(history[0].code.as_deref(), Some("panic"));
        let detail = history[0].detail.as_deref().unwrap();
        assert!(detail.ends_with(text), "{detail}");
    }
    let others: Vec<_> = [0, 1, 2, 4, 6, 7, 8, 9]
        .map(|index: usize| ids[index])
        .into();
    all_are(&*store, &others, StateKind::Delivered).await;
    end(&worker, &*store).await;
}

#[tokio::test]
async fn an_ordered_queue_delivers_each_group_in_order() {
    let store: Arc<dyn Store> = Arc::new(running_reference());
    let policy = QueuePolicy {
        ordered: true,
        ..QueuePolicy::default()
    };
    make_queue(&*store, "mail", &policy).await;
    let message = |n: usize| {
        NewMessage::new(queue("mail"), json!({ "n": n })).with_group(format!("group {}", n % 3))
    };
    let messages: Vec<NewMessage> = (0..30).map(message).collect();
    let enqueued = store.enqueue(&messages).await.unwrap();
    let ids: Vec<_> = enqueued.iter().map(|enqueued| enqueued.id).collect();
    let sink = ScriptedSink::yielding();
    let worker = work(&store, "mail", &sink);
    all_are(&*store, &ids, StateKind::Delivered).await;
    for first in &ids[..3] {
        let seen = sink.seen();
        let order = seen.iter().map(|seen| seen.id);
        let order: Vec<_> = order.filter(|id| id.0 % 3 == (first.0 % 3)).collect();
        assert!(order.is_sorted(), "{order:?}");
        assert_eq!(order.len(), 10);
    }
    end(&worker, &*store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sink_that_blocks_its_thread_does_not_cost_the_lease() {
    let store: Arc<dyn Store> = Arc::new(running_reference());
    let policy = QueuePolicy {
        lease_ttl_ms: 200,
        concurrency: 1,
        ..QueuePolicy::default()
    };
    make_queue(&*store, "mail", &policy).await;
    let is_free = Arc::new(AtomicBool::new(false));
    let sink = ScriptedSink::new({
        let is_free = Arc::clone(&is_free);
        move |_| {
            let is_free = Arc::clone(&is_free);
            async move {
                while !is_free.load(SeqCst) {
                    std::thread::yield_now();
                }
                Verdict::delivered()
            }
        }
    });
    let ids = enqueue(&*store, "mail", 2).await;
    let worker = work_with(&store, "mail", &sink, options());
    let started = tokio::time::Instant::now();
    eventually("it has blocked for long", SOON, || async {
        sink.now() == 1 && started.elapsed() > Duration::from_millis(800)
    })
    .await;
    is_free.store(true, SeqCst);
    all_are(&*store, &ids, StateKind::Delivered).await;
    assert_eq!(sink.seen_ids(), ids);
    end(&worker, &*store).await;
}
