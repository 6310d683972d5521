//! Leases are kept while work goes on, and given up when they are lost.

use std::{sync::Arc, time::Duration};

use consign_kernel::{AttemptOutcome, Outcome, QueuePolicy, StateKind, Store};
use consign_testkit::eventually;
use consign_worker::Verdict;
use jiff::SignedDuration;
use tokio::time::Instant;

use crate::support::{
    FaultyStore, Gate, SOON, ScriptedSink, all_are, attempts, end, enqueue, frozen_reference,
    make_queue, number, options, running_reference, sqlite, work, work_with,
};

const TTL_MS: u64 = 300;

fn short_leases(concurrency: u32) -> QueuePolicy {
    QueuePolicy {
        lease_ttl_ms: TTL_MS,
        concurrency,
        ..QueuePolicy::default()
    }
}

/// A delivery that outlives its lease many times, with others waiting behind it.
async fn a_long_delivery_keeps_its_lease(store: Arc<dyn Store>) {
    make_queue(&*store, "mail", &short_leases(1)).await;
    let gate = Gate::default();
    let sink = ScriptedSink::new({
        let gate = gate.clone();
        move |delivery| {
            let gate = gate.clone();
            async move {
                // Quick at first, so that the worker claims ahead.
                if number(&delivery) >= Some(8) {
                    gate.passed().await;
                }
                Verdict::delivered()
            }
        }
    });
    let ids = enqueue(&*store, "mail", 20).await;
    let worker = work(&store, "mail", &sink);
    eventually("one is under way, others wait behind it", SOON, || async {
        sink.now() == 1 && worker.status().queues[0].prefetched > 0
    })
    .await;
    let since = Instant::now();
    eventually("four leases' time has passed", SOON, || async {
        since.elapsed() > Duration::from_millis(4 * TTL_MS)
    })
    .await;
    assert_eq!(
        store.expire(10).await.unwrap().leases,
        0,
        "nothing has expired"
    );
    gate.open();
    all_are(&*store, &ids, StateKind::Delivered).await;
    assert_eq!(sink.seen_ids(), ids, "each message once");
    for id in ids {
        assert_eq!(attempts(&*store, id).await.len(), 1);
    }
    end(&worker, &*store).await;
}

#[tokio::test]
async fn a_long_delivery_keeps_its_lease_and_those_of_waiting_messages() {
    a_long_delivery_keeps_its_lease(Arc::new(running_reference())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_delivery_keeps_its_lease_over_sqlite() {
    let (store, _folder) = sqlite().await;
    a_long_delivery_keeps_its_lease(store).await;
}

#[tokio::test]
async fn a_lost_lease_cancels_its_deliveries() {
    let (store, clock) = frozen_reference();
    let store: Arc<dyn Store> = Arc::new(store);
    make_queue(&*store, "mail", &short_leases(4)).await;
    let sink = ScriptedSink::hanging();
    let ids = enqueue(&*store, "mail", 2).await;
    let worker = work(&store, "mail", &sink);
    eventually("both are under way", SOON, || async { sink.now() == 2 }).await;
    // Expired, and handed to another lease: the worker's own next claim.
    clock.advance(SignedDuration::from_secs(60));
    assert_eq!(store.expire(10).await.unwrap().messages, 2);
    eventually("they are delivered anew", SOON, || async {
        sink.seen().len() == 4 && sink.now() == 2
    })
    .await;
    assert_eq!(sink.finished(), 0);
    for id in ids {
        assert_eq!(
            attempts(&*store, id).await,
            [(AttemptOutcome::Expired, Some("lease_expired".to_owned()))]
        );
    }
    worker.stop_now();
    assert_eq!(worker.finished().await.interrupted, 4);
}

#[tokio::test]
async fn a_late_result_is_evidence_and_not_an_outcome() {
    let (reference, clock) = frozen_reference();
    let faulty = FaultyStore::new(Arc::new(reference));
    let store: Arc<dyn Store> = faulty.clone();
    make_queue(&*store, "mail", &short_leases(1)).await;
    let sink = ScriptedSink::willing();
    // The result is known, but cannot be recorded before the lease is over.
    faulty.refuse("settle");
    faulty.refuse("renew");
    let ids = enqueue(&*store, "mail", 1).await;
    let worker = work(&store, "mail", &sink);
    eventually("the result is kept", SOON, || async {
        worker.status().queues[0].unrecorded == 1
    })
    .await;
    clock.advance(SignedDuration::from_secs(60));
    faulty.refuse("claim");
    store.expire(10).await.unwrap();
    assert_eq!(store.history(ids[0]).await.unwrap().len(), 1);
    faulty.allow("settle");
    faulty.allow("renew");
    eventually("the evidence is kept", SOON, || async {
        !store.late(ids[0]).await.unwrap().is_empty()
    })
    .await;
    let late = store.late(ids[0]).await.unwrap();
    assert_eq!((late.len(), late[0].outcome), (1, Outcome::Delivered));
    assert_eq!(
        attempts(&*store, ids[0]).await,
        [(AttemptOutcome::Expired, Some("lease_expired".to_owned()))],
        "what was late changes nothing"
    );
    faulty.allow("claim");
    all_are(&*store, &ids, StateKind::Delivered).await;
    assert_eq!(
        sink.seen().len(),
        2,
        "a duplicate, explained by the expired attempt"
    );
    assert_eq!(end(&worker, &*store).await.late, 1);
}

/// Two deliveries under a lease that is not renewed: one ends in time, one hangs.
async fn outlived() -> (Arc<FaultyStore>, Arc<ScriptedSink>) {
    let (reference, _clock) = frozen_reference();
    let faulty = FaultyStore::new(Arc::new(reference));
    make_queue(&*faulty, "mail", &short_leases(2)).await;
    let sink = ScriptedSink::new(|delivery| async move {
        if number(&delivery) == Some(0) {
            std::future::pending::<()>().await;
        }
        tokio::task::yield_now().await;
        Verdict::delivered()
    });
    (faulty, sink)
}

#[tokio::test]
async fn a_delivery_does_not_outlive_its_lease_while_the_database_is_cut_off() {
    let (faulty, sink) = outlived().await;
    let store: Arc<dyn Store> = faulty.clone();
    let ids = enqueue(&*store, "mail", 2).await;
    // Everything about leases is unheard, as behind a cut network.
    for operation in ["renew", "settle"] {
        faulty.refuse(operation);
    }
    let since = Instant::now();
    let worker = work(&store, "mail", &sink);
    eventually("one hangs, one is done", SOON, || async {
        sink.now() == 1 && sink.finished() == 1
    })
    .await;
    faulty.refuse("claim");
    eventually("the hanging one is dropped", SOON, || async {
        sink.now() == 0
    })
    .await;
    let took = since.elapsed();
    let ttl = Duration::from_millis(TTL_MS);
    assert!((ttl..ttl * 3).contains(&took), "{took:?}");
    assert_eq!(
        worker.status().queues[0].unrecorded,
        2,
        "both results are kept"
    );
    // The store's clock does not move: the lease lives, and results are recorded.
    faulty.allow("settle");
    all_are(&*store, &ids[1..], StateKind::Delivered).await;
    let interrupted = Some("interrupted".to_owned());
    eventually("the other result is recorded, too", SOON, || async {
        !attempts(&*store, ids[0]).await.is_empty()
    })
    .await;
    assert_eq!(
        attempts(&*store, ids[0]).await,
        [(AttemptOutcome::Uncertain, interrupted)]
    );
    let summary = end(&worker, &*store).await;
    assert_eq!((summary.delivered, summary.interrupted), (1, 1));
}

#[tokio::test]
async fn nothing_starts_under_a_lease_that_may_be_over() {
    let (reference, clock) = frozen_reference();
    let faulty = FaultyStore::new(Arc::new(reference));
    let store: Arc<dyn Store> = faulty.clone();
    make_queue(&*store, "mail", &short_leases(1)).await;
    let gate = Gate::default();
    gate.open();
    let sink = ScriptedSink::gated(&gate);
    // Learns that the sink is quick, so that the next claim is a large one.
    let first = enqueue(&*store, "mail", 5).await;
    let worker = work(&store, "mail", &sink);
    all_are(&*store, &first, StateKind::Delivered).await;
    gate.close();
    faulty.refuse("renew");
    enqueue(&*store, "mail", 3).await;
    eventually("one is under way, two wait", SOON, || async {
        sink.now() == 1 && worker.status().queues[0].prefetched == 2
    })
    .await;
    faulty.refuse("claim");
    let begun = sink.seen().len();
    eventually("what waited is released", SOON, || async {
        worker.status().queues[0].prefetched == 0
    })
    .await;
    assert_eq!(sink.now(), 0, "what was under way is cut off");
    gate.open();
    assert_eq!(sink.seen().len(), begun, "nothing was started");
    faulty.allow("claim");
    faulty.allow("renew");
    // The one that was cut off counts as a try and rests before the next.
    clock.advance(SignedDuration::from_secs(3_600));
    eventually("and delivered after all", SOON, || async {
        sink.finished() == 8
    })
    .await;
    assert_eq!(end(&worker, &*store).await.released, 2);
}

#[tokio::test]
async fn a_sink_that_becomes_slow_gives_back_what_it_will_not_get_to() {
    let store: Arc<dyn Store> = Arc::new(running_reference());
    let policy = QueuePolicy {
        concurrency: 2,
        ..QueuePolicy::default()
    };
    make_queue(&*store, "mail", &policy).await;
    let gate = Gate::default();
    gate.open();
    let sink = ScriptedSink::gated(&gate);
    let first = enqueue(&*store, "mail", 50).await;
    let worker = work_with(&store, "mail", &sink, options());
    all_are(&*store, &first, StateKind::Delivered).await;
    gate.close();
    let ids = enqueue(&*store, "mail", 200).await;
    eventually("many were claimed", SOON, || async {
        sink.now() == 2 && worker.status().queues[0].prefetched > 100
    })
    .await;
    eventually("most of them are released", SOON, || async {
        worker.status().queues[0].prefetched <= 2
    })
    .await;
    gate.open();
    all_are(&*store, &ids, StateKind::Delivered).await;
    let summary = end(&worker, &*store).await;
    assert!(summary.released >= 150, "{summary:?}");
    assert_eq!(sink.seen().len(), 250, "each message once");
}
