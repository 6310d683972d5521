//! Draining and stopping.

use std::{sync::Arc, time::Duration};

use consign_kernel::{AttemptOutcome, OnUncertain, QueuePolicy, StateKind, Store};
use consign_testkit::eventually;
use consign_worker::WorkerOptions;
use tokio::time::Instant;

use crate::support::{
    FaultyStore, Gate, SOON, ScriptedSink, all_are, attempts, end, enqueue, frozen_reference,
    make_queue, options, sqlite, work, work_with,
};

fn two_at_once() -> QueuePolicy {
    QueuePolicy {
        concurrency: 2,
        ..QueuePolicy::default()
    }
}

/// A worker with two deliveries under way and more waiting in the same lease.
async fn busy(
    store: &Arc<dyn Store>,
    policy: &QueuePolicy,
    options: WorkerOptions,
) -> (
    consign_worker::WorkerHandle,
    Arc<ScriptedSink>,
    Gate,
    Vec<consign_kernel::MessageId>,
) {
    make_queue(&**store, "mail", policy).await;
    let gate = Gate::default();
    gate.open();
    let sink = ScriptedSink::gated(&gate);
    // Learns that the sink is quick.
    let first = enqueue(&**store, "mail", 20).await;
    let worker = work_with(store, "mail", &sink, options);
    all_are(&**store, &first, StateKind::Delivered).await;
    gate.close();
    let ids = enqueue(&**store, "mail", 40).await;
    eventually("two are under way, others wait", SOON, || async {
        sink.now() == 2 && worker.status().queues[0].prefetched > 0
    })
    .await;
    (worker, sink, gate, ids)
}

async fn a_drain_finishes_what_flies_and_releases_the_rest(store: Arc<dyn Store>) {
    let (worker, sink, gate, ids) = busy(&store, &two_at_once(), options()).await;
    worker.drain();
    assert!(worker.status().draining);
    eventually(
        "the rest is released while two are under way",
        SOON,
        || async {
            store
                .leases(10)
                .await
                .unwrap()
                .iter()
                .all(|lease| lease.ids.len() <= 2)
                && worker.status().queues[0].prefetched == 0
        },
    )
    .await;
    assert_eq!(sink.now(), 2, "nothing is cut off");
    gate.open();
    let summary = end(&worker, &*store).await;
    assert_eq!((summary.delivered, summary.interrupted), (22, 0));
    all_are(&*store, &ids[..2], StateKind::Delivered).await;
    all_are(&*store, &ids[2..], StateKind::Ready).await;
    for id in &ids[2..] {
        assert_eq!(
            attempts(&*store, *id).await,
            [],
            "released without an attempt"
        );
    }
    let next = work(&store, "mail", &sink);
    all_are(&*store, &ids, StateKind::Delivered).await;
    assert_eq!(sink.seen().len(), 60, "no duplicate");
    end(&next, &*store).await;
}

#[tokio::test]
async fn a_drain_finishes_what_is_under_way_and_releases_the_rest() {
    a_drain_finishes_what_flies_and_releases_the_rest(Arc::new(frozen_reference().0)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_over_sqlite_is_the_same() {
    let (store, _folder) = sqlite().await;
    a_drain_finishes_what_flies_and_releases_the_rest(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drains_under_load_leave_no_duplicates() {
    let (store, _folder) = sqlite().await;
    let store: Arc<dyn Store> = store;
    make_queue(&*store, "mail", &QueuePolicy::default()).await;
    let sink = ScriptedSink::yielding();
    let ids = enqueue(&*store, "mail", 6_000).await;
    for round in 1..=10 {
        let worker = work(&store, "mail", &sink);
        eventually("it works", SOON, || async {
            sink.seen().len() >= round * 300
        })
        .await;
        end(&worker, &*store).await;
    }
    let worker = work(&store, "mail", &sink);
    all_are(&*store, &ids, StateKind::Delivered).await;
    assert_eq!(sink.seen_ids(), ids, "each message once");
    end(&worker, &*store).await;
}

#[tokio::test]
async fn what_outlasts_the_grace_is_recorded_as_uncertain() {
    for on_uncertain in [OnUncertain::Resend, OnUncertain::Probe, OnUncertain::Hold] {
        let store: Arc<dyn Store> = Arc::new(frozen_reference().0);
        let policy = QueuePolicy {
            on_uncertain,
            ..two_at_once()
        };
        let short = WorkerOptions {
            grace: Duration::from_millis(100),
            ..options()
        };
        let (worker, sink, _gate, ids) = busy(&store, &policy, short).await;
        let summary = end(&worker, &*store).await;
        assert_eq!((summary.interrupted, summary.uncertain), (2, 2));
        assert_eq!(sink.now(), 0, "cut off");
        let place = match on_uncertain {
            OnUncertain::Hold => StateKind::Held,
            OnUncertain::Resend | OnUncertain::Probe => StateKind::Ready,
        };
        for id in &ids[..2] {
            let expected = (AttemptOutcome::Uncertain, Some("interrupted".to_owned()));
            assert_eq!(attempts(&*store, *id).await, [expected]);
        }
        all_are(&*store, &ids[..2], place).await;
        all_are(&*store, &ids[2..], StateKind::Ready).await;
    }
}

#[tokio::test]
async fn stop_now_cuts_off_at_once_and_leaves_no_lease() {
    let store: Arc<dyn Store> = Arc::new(frozen_reference().0);
    let (worker, sink, _gate, ids) = busy(&store, &two_at_once(), options()).await;
    worker.drain();
    let asked = Instant::now();
    worker.stop_now();
    let summary = worker.finished().await;
    assert!(asked.elapsed() < Duration::from_secs(8));
    assert_eq!((summary.interrupted, summary.uncertain), (2, 2));
    assert_eq!(store.leases(10).await.unwrap(), vec![]);
    assert_eq!(sink.now(), 0);
    all_are(&*store, &ids, StateKind::Ready).await;
}

#[tokio::test]
async fn a_drain_without_a_database_ends_with_the_grace() {
    let faulty = FaultyStore::new(Arc::new(frozen_reference().0));
    let store: Arc<dyn Store> = faulty.clone();
    let short = WorkerOptions {
        grace: Duration::from_millis(500),
        ..options()
    };
    let (worker, _sink, gate, _ids) = busy(&store, &two_at_once(), short).await;
    faulty.set_down(true);
    gate.open();
    worker.drain();
    let asked = Instant::now();
    let summary = worker.finished().await;
    assert!(
        asked.elapsed() < Duration::from_secs(8),
        "{:?}",
        asked.elapsed()
    );
    assert!(summary.unrecorded >= 2, "{summary:?}");
}

#[tokio::test]
async fn an_idle_worker_stops_at_once_every_time() {
    let store: Arc<dyn Store> = Arc::new(frozen_reference().0);
    make_queue(&*store, "mail", &QueuePolicy::default()).await;
    let worker = work(&store, "mail", &ScriptedSink::willing());
    let asked = Instant::now();
    worker.drain();
    let (one, two) = (worker.clone(), worker.clone());
    assert_eq!(one.finished().await, two.finished().await);
    assert!(asked.elapsed() < Duration::from_secs(8));
}

#[tokio::test]
async fn a_claim_that_comes_home_after_the_order_to_drain_is_given_back() {
    let faulty = FaultyStore::new(Arc::new(frozen_reference().0));
    let store: Arc<dyn Store> = faulty.clone();
    make_queue(&*store, "mail", &QueuePolicy::default()).await;
    let ids = enqueue(&*store, "mail", 5).await;
    let answers = Gate::default();
    faulty.hold_back("claim", &answers);
    let sink = ScriptedSink::willing();
    let worker = work(&store, "mail", &sink);
    all_are(&*store, &ids, StateKind::Leased).await;
    worker.drain();
    answers.open();
    let summary = end(&worker, &*store).await;
    assert_eq!((summary.released, sink.seen().len()), (5, 0));
    all_are(&*store, &ids, StateKind::Ready).await;
    assert_eq!(attempts(&*store, ids[0]).await, []);
}

/// A caller that waits for the end of the work must not mistake a claim under way for idleness.
#[tokio::test]
async fn a_claim_under_way_shows() {
    let faulty = FaultyStore::new(Arc::new(frozen_reference().0));
    let store: Arc<dyn Store> = faulty.clone();
    make_queue(&*store, "mail", &QueuePolicy::default()).await;
    let ids = enqueue(&*store, "mail", 1).await;
    let answers = Gate::default();
    faulty.hold_back("claim", &answers);
    let worker = work(&store, "mail", &ScriptedSink::willing());
    all_are(&*store, &ids, StateKind::Leased).await;
    let queue = worker.status().queues.remove(0);
    assert!(queue.claiming, "{queue:?}");
    assert_eq!(queue.in_flight + queue.prefetched + queue.unrecorded, 0);
    answers.open();
    all_are(&*store, &ids, StateKind::Delivered).await;
    eventually("no claim is under way", SOON, || async {
        !worker.status().queues[0].claiming
    })
    .await;
    end(&worker, &*store).await;
}
