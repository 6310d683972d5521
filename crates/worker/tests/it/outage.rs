//! The database goes away and comes back.

use std::{sync::Arc, time::Duration};

use consign_kernel::{AttemptOutcome, Outcome, QueuePolicy, StateKind, Store};
use consign_testkit::{ChaosProxy, eventually};
use consign_worker::{About, Verdict};
use serde_json::json;
use tokio::time::Instant;

use crate::support::{
    FaultyStore, Gate, SOON, ScriptedSink, all_are, attempts, end, enqueue, frozen_reference,
    make_queue, postgres, postgres_database, work,
};

async fn faulty() -> (Arc<FaultyStore>, Arc<dyn Store>) {
    let faulty = FaultyStore::new(Arc::new(frozen_reference().0));
    let store: Arc<dyn Store> = faulty.clone();
    make_queue(&*store, "mail", &QueuePolicy::default()).await;
    (faulty, store)
}

#[tokio::test]
async fn a_result_is_kept_while_the_database_is_gone_and_recorded_once() {
    let (faulty, store) = faulty().await;
    let gate = Gate::default();
    let sink = ScriptedSink::gated(&gate);
    let ids = enqueue(&*store, "mail", 3).await;
    let worker = work(&store, "mail", &sink);
    eventually("all are under way", SOON, || async { sink.now() == 3 }).await;
    faulty.set_down(true);
    gate.open();
    eventually("the results are kept", SOON, || async {
        worker.status().queues[0].unrecorded == 3 && faulty.calls("settle") >= 3
    })
    .await;
    let error = worker.status().queues[0].database_error.clone().unwrap();
    assert!(error.contains("a fault of the test"), "{error}");
    faulty.set_down(false);
    all_are(&*store, &ids, StateKind::Delivered).await;
    assert_eq!(sink.seen_ids(), ids, "not redone");
    eventually("the trouble is forgotten", SOON, || async {
        let status = &worker.status().queues[0];
        status.database_error.is_none() && status.unrecorded == 0
    })
    .await;
    end(&worker, &*store).await;
}

#[tokio::test]
async fn a_settle_whose_answer_is_lost_is_repeated_and_recorded_once() {
    let (faulty, store) = faulty().await;
    faulty.lose_answer("settle");
    let sink = ScriptedSink::willing();
    let ids = enqueue(&*store, "mail", 1).await;
    let worker = work(&store, "mail", &sink);
    eventually("called twice", SOON, || async {
        faulty.calls("settle") == 2
    })
    .await;
    assert_eq!(
        attempts(&*store, ids[0]).await,
        [(AttemptOutcome::Delivered, None)]
    );
    let summary = end(&worker, &*store).await;
    assert_eq!(
        (summary.delivered, summary.late, sink.seen().len()),
        (1, 0, 1)
    );
}

#[tokio::test]
async fn answers_of_begin_and_release_may_be_lost_too() {
    let (faulty, store) = faulty().await;
    let policy = QueuePolicy {
        concurrency: 1,
        record_begin: true,
        ..QueuePolicy::default()
    };
    make_queue(&*store, "mail", &policy).await;
    faulty.lose_answer("begin");
    faulty.lose_answer("release");
    let gate = Gate::default();
    gate.open();
    let sink = ScriptedSink::gated(&gate);
    let first = enqueue(&*store, "mail", 10).await;
    let worker = work(&store, "mail", &sink);
    all_are(&*store, &first, StateKind::Delivered).await;
    gate.close();
    let ids = enqueue(&*store, "mail", 5).await;
    eventually("one is under way, others wait", SOON, || async {
        sink.now() == 1 && worker.status().queues[0].prefetched == 4
    })
    .await;
    worker.drain();
    eventually("the release was repeated", SOON, || async {
        faulty.calls("release") == 2
    })
    .await;
    gate.open();
    end(&worker, &*store).await;
    all_are(&*store, &ids[..1], StateKind::Delivered).await;
    all_are(&*store, &ids[1..], StateKind::Ready).await;
    assert_eq!(sink.seen().len(), 11);
}

#[tokio::test]
async fn an_absent_database_is_polled_with_backoff_and_soon_after_its_return() {
    let (faulty, store) = faulty().await;
    faulty.set_down(true);
    let sink = ScriptedSink::willing();
    let worker = work(&store, "mail", &sink);
    let since = Instant::now();
    eventually("three seconds have passed", SOON, || async {
        since.elapsed() > Duration::from_secs(3)
    })
    .await;
    let calls = faulty.all_calls();
    assert!((3..40).contains(&calls), "{calls} calls in 3 s");
    faulty.set_down(false);
    let ids = enqueue(&*store, "mail", 1).await;
    let back = Instant::now();
    all_are(&*store, &ids, StateKind::Delivered).await;
    assert!(
        back.elapsed() < Duration::from_secs(8),
        "{:?}",
        back.elapsed()
    );
    end(&worker, &*store).await;
}

#[tokio::test]
async fn results_do_not_pile_up_without_bound() {
    let (faulty, store) = faulty().await;
    let sink = ScriptedSink::willing();
    faulty.refuse("settle");
    enqueue(&*store, "mail", 5_000).await;
    let worker = work(&store, "mail", &sink);
    eventually("as many are held as may be", SOON, || async {
        worker.status().queues[0].unrecorded >= 1_500
    })
    .await;
    let claims = faulty.calls("claim");
    let since = Instant::now();
    eventually("a while has passed", SOON, || async {
        since.elapsed() > Duration::from_millis(200)
    })
    .await;
    assert_eq!(faulty.calls("claim"), claims, "nothing more is claimed");
    assert!(worker.status().queues[0].unrecorded <= 2_000);
    faulty.allow("settle");
    eventually("everything is delivered", SOON, || async {
        sink.seen().len() == 5_000
    })
    .await;
    assert_eq!(end(&worker, &*store).await.delivered, 5_000);
}

#[tokio::test]
async fn words_the_store_refuses_do_not_cost_the_outcome() {
    let (faulty, store) = faulty().await;
    faulty.forbid("settle", 1);
    let sink = ScriptedSink::new(|_| async {
        Verdict::failed(Outcome::Dead, About::Message, "http_410", "babble")
            .with_result(json!({"more": "babble"}))
    });
    let ids = enqueue(&*store, "mail", 1).await;
    let worker = work(&store, "mail", &sink);
    all_are(&*store, &ids, StateKind::Dead).await;
    let attempt = &store.history(ids[0]).await.unwrap()[0];
    assert_eq!(attempt.code.as_deref(), Some("http_410"));
    assert_eq!(attempt.result, None);
    let detail = attempt.detail.as_deref().unwrap();
    assert!(
        detail.starts_with("the sink's detail could not be recorded"),
        "{detail}"
    );
    end(&worker, &*store).await;
}

#[tokio::test]
async fn a_lease_the_store_refuses_for_good_is_left_to_run_out() {
    let (faulty, store) = faulty().await;
    faulty.forbid("settle", 8);
    let sink = ScriptedSink::willing();
    let refused = enqueue(&*store, "mail", 1).await;
    let worker = work(&store, "mail", &sink);
    eventually("it is given up", SOON, || async {
        faulty.calls("settle") == 8 && worker.status().queues[0].unrecorded == 0
    })
    .await;
    all_are(&*store, &refused, StateKind::Leased).await;
    let others = enqueue(&*store, "mail", 5).await;
    all_are(&*store, &others, StateKind::Delivered).await;
    worker.drain();
    let summary = worker.finished().await;
    assert_eq!((summary.delivered, summary.late), (5, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_cut_in_mid_delivery_costs_nothing_while_the_lease_lives() {
    let database = postgres_database().await;
    let proxy = ChaosProxy::start(database.address().await).await;
    let direct = postgres(database.url()).await;
    let store: Arc<dyn Store> = postgres(&database.url_via(proxy.address())).await;
    make_queue(&*direct, "mail", &QueuePolicy::default()).await;
    let gate = Gate::default();
    let sink = ScriptedSink::gated(&gate);
    let ids = enqueue(&*direct, "mail", 5).await;
    let worker = work(&store, "mail", &sink);
    eventually("all are under way", SOON, || async { sink.now() == 5 }).await;
    proxy.cut().await;
    gate.open();
    eventually("the results are kept", SOON, || async {
        worker.status().queues[0].unrecorded == 5
    })
    .await;
    all_are(&*direct, &ids, StateKind::Leased).await;
    proxy.restore();
    let back = Instant::now();
    all_are(&*direct, &ids, StateKind::Delivered).await;
    let late = enqueue(&*direct, "mail", 5).await;
    all_are(&*direct, &late, StateKind::Delivered).await;
    assert!(
        back.elapsed() < Duration::from_secs(8),
        "{:?}",
        back.elapsed()
    );
    assert_eq!(sink.seen().len(), 10, "nothing was redone");
    for id in ids {
        assert_eq!(
            attempts(&*direct, id).await,
            [(AttemptOutcome::Delivered, None)]
        );
    }
    end(&worker, &*direct).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_settle_whose_answer_is_lost_is_recorded_once_over_postgres() {
    let database = postgres_database().await;
    let direct = postgres(database.url()).await;
    let faulty = FaultyStore::new(direct.clone());
    let store: Arc<dyn Store> = faulty.clone();
    make_queue(&*direct, "mail", &QueuePolicy::default()).await;
    faulty.lose_answer("settle");
    let sink = ScriptedSink::willing();
    let ids = enqueue(&*direct, "mail", 5).await;
    let worker = work(&store, "mail", &sink);
    eventually("the worker knows", SOON, || async {
        faulty.calls("settle") >= 2 && worker.status().queues[0].unrecorded == 0
    })
    .await;
    let summary = end(&worker, &*direct).await;
    assert_eq!((summary.delivered, summary.late), (5, 0));
    for id in ids {
        assert_eq!(
            attempts(&*direct, id).await,
            [(AttemptOutcome::Delivered, None)]
        );
    }
}
