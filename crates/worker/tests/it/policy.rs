//! Policy is read while the worker runs, and idleness is cheap.

use std::{sync::Arc, time::Duration};

use consign_kernel::{Outcome, QueuePolicy, StateKind, Store};
use consign_testkit::eventually;
use consign_worker::{About, Verdict, WorkerOptions};
use tokio::time::Instant;

use crate::support::{
    FaultyStore, Gate, SOON, ScriptedSink, all_are, by, end, enqueue, make_queue, options,
    postgres, postgres_database, queue, running_reference, sqlite, state, work, work_with,
};

#[tokio::test]
async fn concurrency_changes_while_the_worker_runs() {
    let store: Arc<dyn Store> = Arc::new(running_reference());
    let at_once = |concurrency| QueuePolicy {
        concurrency,
        ..QueuePolicy::default()
    };
    make_queue(&*store, "mail", &at_once(2)).await;
    let gate = Gate::default();
    let sink = ScriptedSink::gated(&gate);
    let ids = enqueue(&*store, "mail", 30).await;
    let worker = work(&store, "mail", &sink);
    eventually("two at once", SOON, || async { sink.now() == 2 }).await;
    make_queue(&*store, "mail", &at_once(9)).await;
    eventually("nine at once", SOON, || async { sink.now() == 9 }).await;
    gate.open();
    all_are(&*store, &ids, StateKind::Delivered).await;
    assert_eq!(sink.most(), 9);
    end(&worker, &*store).await;
}

#[tokio::test]
async fn a_paused_queue_rests_until_it_is_resumed() {
    let store: Arc<dyn Store> = Arc::new(running_reference());
    make_queue(&*store, "mail", &QueuePolicy::default()).await;
    store.pause(&queue("mail"), &by()).await.unwrap();
    let sink = ScriptedSink::willing();
    let worker = work(&store, "mail", &sink);
    eventually("the worker knows", SOON, || async {
        worker.status().queues[0].paused
    })
    .await;
    let ids = enqueue(&*store, "mail", 5).await;
    assert_eq!(state(&*store, ids[0]).await, StateKind::Ready);
    assert_eq!(sink.seen().len(), 0);
    store.resume(&queue("mail"), &by()).await.unwrap();
    all_are(&*store, &ids, StateKind::Delivered).await;
    eventually("the worker knows", SOON, || async {
        !worker.status().queues[0].paused
    })
    .await;
    end(&worker, &*store).await;
}

#[tokio::test]
async fn a_queue_that_is_created_later_is_worked_from_then_on() {
    let store: Arc<dyn Store> = Arc::new(running_reference());
    let sink = ScriptedSink::willing();
    let worker = work(&store, "mail", &sink);
    make_queue(&*store, "mail", &QueuePolicy::default()).await;
    let ids = enqueue(&*store, "mail", 5).await;
    all_are(&*store, &ids, StateKind::Delivered).await;
    end(&worker, &*store).await;
}

/// Store calls of an idle worker with default options in `seconds`.
async fn calls_when_idle(inner: Arc<dyn Store>, policy: &QueuePolicy, seconds: u64) -> usize {
    let faulty = FaultyStore::new(inner);
    let store: Arc<dyn Store> = faulty.clone();
    make_queue(&*store, "mail", policy).await;
    let ids = enqueue(&*store, "mail", 10).await;
    let sink = ScriptedSink::willing();
    let worker = work_with(&store, "mail", &sink, WorkerOptions::new("idler"));
    all_are(&*store, &ids, StateKind::Delivered).await;
    let settled = Instant::now();
    eventually("it has calmed down", SOON, || async {
        settled.elapsed() > Duration::from_secs(2)
    })
    .await;
    let (before, since) = (faulty.all_calls(), Instant::now());
    eventually("a while has passed", SOON, || async {
        since.elapsed() > Duration::from_secs(seconds)
    })
    .await;
    let calls = faulty.all_calls() - before;
    end(&worker, &*store).await;
    calls
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_queue_costs_less_than_two_queries_a_second() {
    let database = postgres_database().await;
    let store = postgres(database.url()).await;
    let calls = calls_when_idle(store.clone(), &QueuePolicy::default(), 6).await;
    assert!(calls < 9, "{calls} in 6 s where wake-ups come");
    let silent = QueuePolicy {
        notify: false,
        ..QueuePolicy::default()
    };
    let calls = calls_when_idle(store, &silent, 4).await;
    assert!(calls < 8, "{calls} in 4 s where none come");
}

/// The next poll is a minute away: only a wake-up can bring the message before the deadline.
async fn a_wake_up_brings_each_message(store: Arc<dyn Store>, producer: &dyn Store) {
    make_queue(&*store, "mail", &QueuePolicy::default()).await;
    let sink = ScriptedSink::willing();
    let rarely = WorkerOptions {
        poll_min: Duration::from_secs(60),
        poll_max: Duration::from_secs(60),
        ..options()
    };
    let faulty = FaultyStore::new(Arc::clone(&store));
    let counted: Arc<dyn Store> = faulty.clone();
    let worker = work_with(&counted, "mail", &sink, rarely);
    for round in 0..20 {
        eventually("the worker is idle", SOON, || async {
            faulty.calls("wait") > round
        })
        .await;
        enqueue(producer, "mail", 1).await;
        eventually("it is picked up", SOON, || async {
            sink.seen().len() == round + 1
        })
        .await;
    }
    end(&worker, &*store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_worker_is_woken_over_postgres() {
    let database = postgres_database().await;
    let producer = postgres(database.url()).await;
    a_wake_up_brings_each_message(postgres(database.url()).await, &*producer).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_worker_is_woken_over_sqlite() {
    let (store, _folder) = sqlite().await;
    a_wake_up_brings_each_message(store.clone(), &*store).await;
}

/// Where no wake-up comes, the worker's own settle moves the next look forward.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_is_delivered_at_its_time_though_the_next_poll_is_far() {
    let database = postgres_database().await;
    let store: Arc<dyn Store> = postgres(database.url()).await;
    let silent = QueuePolicy {
        notify: false,
        ..QueuePolicy::default()
    };
    make_queue(&*store, "mail", &silent).await;
    let ids = enqueue(&*store, "mail", 1).await;
    let gate = Gate::default();
    let passed = gate.clone();
    let sink = ScriptedSink::new(move |delivery| {
        let gate = passed.clone();
        async move {
            gate.passed().await;
            match delivery.attempt_no {
                1 => Verdict::failed(Outcome::Retry, About::Message, "not_yet", "")
                    .with_retry_in(Some(Duration::from_millis(100))),
                _ => Verdict::delivered(),
            }
        }
    });
    let rarely = WorkerOptions {
        poll_min: Duration::from_secs(60),
        poll_max: Duration::from_secs(60),
        ..options()
    };
    let faulty = FaultyStore::new(Arc::clone(&store));
    let counted: Arc<dyn Store> = faulty.clone();
    let worker = work_with(&counted, "mail", &sink, rarely);
    eventually("it waits for more", SOON, || async {
        faulty.calls("wait") > 0
    })
    .await;
    gate.open();
    all_are(&*store, &ids, StateKind::Delivered).await;
    end(&worker, &*store).await;
}
