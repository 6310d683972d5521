//! Sinks that suffer: breaker, pace, rate, adaptive concurrency.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use consign_kernel::{
    AlertReason, AttemptOutcome, Outcome, QueuePolicy, RetrySchedule, StateKind, Store,
};
use consign_testkit::eventually;
use consign_worker::{
    About, BreakerOptions, BreakerState, QueueWork, Sink, Verdict, Worker, WorkerHandle,
};
use tokio::time::Instant;

use crate::support::{
    Gate, SOON, ScriptedSink, all_are, attempts, down, end, enqueue, make_queue, number, options,
    queue, running_reference, work,
};

fn policy() -> QueuePolicy {
    QueuePolicy {
        attempts_max: 100,
        retry: RetrySchedule::Fixed { delay_ms: 1 },
        ..QueuePolicy::default()
    }
}

fn breaker() -> BreakerOptions {
    BreakerOptions {
        failures_max: 3,
        pause_min: Duration::from_millis(100),
        pause_max: Duration::from_millis(400),
        ..BreakerOptions::default()
    }
}

fn start(store: &Arc<dyn Store>, queues: &[(&str, &Arc<ScriptedSink>)]) -> WorkerHandle {
    let work = |(name, sink): &(&str, &Arc<ScriptedSink>)| QueueWork {
        breaker: breaker(),
        ..QueueWork::new(queue(name), Arc::clone(sink) as Arc<dyn Sink>)
    };
    let queues = queues.iter().map(work).collect();
    Worker::start(Arc::clone(store), queues, options())
}

/// A sink that is down while the switch is off.
fn switched(is_up: &Arc<AtomicBool>) -> Arc<ScriptedSink> {
    let is_up = Arc::clone(is_up);
    ScriptedSink::new(move |_| {
        let is_up = is_up.load(SeqCst);
        async move { if is_up { Verdict::delivered() } else { down() } }
    })
}

#[tokio::test]
async fn a_breaker_opens_without_burning_tries_probes_and_closes() {
    let store: Arc<dyn Store> = Arc::new(running_reference());
    make_queue(&*store, "mail", &policy()).await;
    let is_up = Arc::new(AtomicBool::new(false));
    let sink = switched(&is_up);
    let ids = enqueue(&*store, "mail", 100).await;
    let worker = start(&store, &[("mail", &sink)]);
    eventually("the breaker opens", SOON, || async {
        worker.status().queues[0].breaker == BreakerState::Open
    })
    .await;
    eventually("what was claimed is released", SOON, || async {
        store.leases(10).await.unwrap().is_empty() && worker.status().queues[0].prefetched == 0
    })
    .await;
    let since = Instant::now();
    eventually("several pauses have passed", SOON, || async {
        since.elapsed() > Duration::from_millis(1_500)
    })
    .await;
    // Three to open it, then one probe per pause of 100, 200, 400, 400 ... ms, spread by a fifth.
    let tries = sink.seen().len();
    assert!(
        (5..=10).contains(&tries),
        "{tries} tries of a sink that is down"
    );
    assert_eq!(sink.most(), 1, "probes go one by one");
    is_up.store(true, SeqCst);
    all_are(&*store, &ids, StateKind::Delivered).await;
    assert_eq!(worker.status().queues[0].breaker, BreakerState::Closed);
    let mut burnt = 0;
    for id in ids {
        let failed = |(outcome, _): &(AttemptOutcome, _)| *outcome == AttemptOutcome::Retry;
        burnt += attempts(&*store, id)
            .await
            .iter()
            .filter(|a| failed(a))
            .count();
    }
    assert_eq!(burnt + 100, sink.seen().len());
    assert!(burnt <= 12, "{burnt} tries were burnt");
    end(&worker, &*store).await;
}

#[tokio::test]
async fn failures_of_messages_do_not_open_the_breaker() {
    let store: Arc<dyn Store> = Arc::new(running_reference());
    make_queue(&*store, "mail", &policy()).await;
    let sink = ScriptedSink::new(|_| async {
        Verdict::failed(Outcome::Dead, About::Message, "refused", "no such address")
    });
    let ids = enqueue(&*store, "mail", 50).await;
    let worker = start(&store, &[("mail", &sink)]);
    all_are(&*store, &ids, StateKind::Dead).await;
    assert_eq!(worker.status().queues[0].breaker, BreakerState::Closed);
    assert_eq!(sink.seen_ids(), ids);
    end(&worker, &*store).await;
}

#[tokio::test]
async fn queues_of_one_sink_share_its_breaker_and_others_are_not_slowed() {
    let store: Arc<dyn Store> = Arc::new(running_reference());
    for name in ["one", "two", "three"] {
        make_queue(&*store, name, &policy()).await;
    }
    let (broken, well) = (ScriptedSink::down(), ScriptedSink::yielding());
    let queues = [("one", &broken), ("two", &broken), ("three", &well)];
    enqueue(&*store, "one", 10).await;
    let worker = start(&store, &queues);
    eventually("both queues see it open", SOON, || async {
        let status = worker.status();
        status.queues[..2]
            .iter()
            .all(|queue| queue.breaker != BreakerState::Closed)
            && status.queues[2].breaker == BreakerState::Closed
    })
    .await;
    let waiting = enqueue(&*store, "two", 10).await;
    let ids = enqueue(&*store, "three", 500).await;
    let since = Instant::now();
    all_are(&*store, &ids, StateKind::Delivered).await;
    assert!(
        since.elapsed() < Duration::from_secs(10),
        "{:?}",
        since.elapsed()
    );
    let seen = broken.seen();
    let spared = waiting
        .iter()
        .filter(|id| !seen.iter().any(|s| s.id == **id))
        .count();
    assert!(
        spared >= 5,
        "the second queue waits for the first one's experience"
    );
    end(&worker, &*store).await;
}

#[tokio::test]
async fn each_queue_with_alerts_records_that_its_breaker_opened() {
    let store: Arc<dyn Store> = Arc::new(running_reference());
    make_queue(&*store, "ops", &policy()).await;
    let alerting = QueuePolicy {
        alert_queue: Some(queue("ops")),
        ..policy()
    };
    make_queue(&*store, "mail", &alerting).await;
    make_queue(&*store, "news", &alerting).await;
    make_queue(&*store, "quiet", &policy()).await;
    let sink = switched(&Arc::new(AtomicBool::new(false)));
    enqueue(&*store, "mail", 10).await;
    let worker = start(
        &store,
        &[("mail", &sink), ("news", &sink), ("quiet", &sink)],
    );
    let seen = Mutex::new(BTreeSet::new());
    eventually("both are alerted", SOON, || async {
        let step = store.step_alerts(100).await.unwrap();
        let mut seen = seen.lock().unwrap();
        for alert in step.raised {
            assert_eq!(alert.reason, AlertReason::BreakerOpen, "{alert:?}");
            assert_eq!(alert.code, down().code, "{alert:?}");
            seen.insert(alert.queue.to_string());
        }
        seen.len() == 2
    })
    .await;
    let expected = ["mail", "news"].map(str::to_owned);
    assert_eq!(*seen.lock().unwrap(), BTreeSet::from(expected));
    end(&worker, &*store).await;
}

#[tokio::test]
async fn two_sinks_with_one_destination_share_a_breaker() {
    let store: Arc<dyn Store> = Arc::new(running_reference());
    for name in ["one", "two", "three"] {
        make_queue(&*store, name, &policy()).await;
    }
    let work = |name: &str, same_destination_as: Option<&str>| QueueWork {
        breaker: breaker(),
        same_destination_as: same_destination_as.map(queue),
        ..QueueWork::new(queue(name), ScriptedSink::down() as Arc<dyn Sink>)
    };
    let queues = vec![
        work("one", None),
        work("two", Some("one")),
        work("three", None),
    ];
    enqueue(&*store, "one", 10).await;
    let worker = Worker::start(Arc::clone(&store), queues, options());
    eventually("the first and second see it open", SOON, || async {
        let queues = worker.status().queues;
        let closed = |n: usize| queues[n].breaker == BreakerState::Closed;
        (closed(0), closed(1), closed(2)) == (false, false, true)
    })
    .await;
    end(&worker, &*store).await;
}

#[tokio::test]
async fn a_hanging_sink_opens_its_breaker_by_timeouts_and_slows_no_other_queue() {
    let store: Arc<dyn Store> = Arc::new(running_reference());
    let hanging = QueuePolicy {
        timeout_ms: 50,
        ..policy()
    };
    make_queue(&*store, "one", &hanging).await;
    make_queue(&*store, "two", &policy()).await;
    let (stuck, well) = (ScriptedSink::hanging(), ScriptedSink::yielding());
    enqueue(&*store, "one", 100).await;
    let worker = start(&store, &[("one", &stuck), ("two", &well)]);
    eventually("the breaker opens", SOON, || async {
        worker.status().queues[0].breaker == BreakerState::Open
    })
    .await;
    let ids = enqueue(&*store, "two", 500).await;
    all_are(&*store, &ids, StateKind::Delivered).await;
    end(&worker, &*store).await;
}

#[tokio::test]
async fn concurrency_adapts_to_what_the_sink_bears() {
    let store: Arc<dyn Store> = Arc::new(running_reference());
    make_queue(&*store, "mail", &policy()).await;
    let gate = Gate::default();
    let sink = ScriptedSink::new({
        let gate = gate.clone();
        move |delivery| {
            let gate = gate.clone();
            async move {
                if number(&delivery) == Some(0) && delivery.attempt_no == 1 {
                    return down();
                }
                gate.passed().await;
                Verdict::delivered()
            }
        }
    });
    let ids = enqueue(&*store, "mail", 300).await;
    let worker = work(&store, "mail", &sink);
    eventually("one failure halves it", SOON, || async {
        worker.status().queues[0].concurrency_now == 8
    })
    .await;
    assert_eq!(worker.status().queues[0].concurrency, 16);
    gate.open();
    all_are(&*store, &ids, StateKind::Delivered).await;
    assert_eq!(
        worker.status().queues[0].concurrency_now,
        16,
        "success brings it back"
    );
    end(&worker, &*store).await;
}

#[tokio::test]
async fn a_queue_keeps_to_its_rate() {
    let store: Arc<dyn Store> = Arc::new(running_reference());
    let limited = QueuePolicy {
        rate_per_second: Some(50),
        ..policy()
    };
    make_queue(&*store, "mail", &limited).await;
    let sink = ScriptedSink::willing();
    let ids = enqueue(&*store, "mail", 55).await;
    let worker = work(&store, "mail", &sink);
    all_are(&*store, &ids, StateKind::Delivered).await;
    let seen = sink.seen();
    let took = seen[54].at - seen[0].at;
    // Five at once, fifty at 50/s.
    assert!(took > Duration::from_millis(950), "{took:?}");
    assert!(took < Duration::from_millis(2_500), "{took:?}");
    end(&worker, &*store).await;
}

#[tokio::test]
async fn a_sinks_wish_is_honoured_for_the_message_and_for_the_queue() {
    let store: Arc<dyn Store> = Arc::new(running_reference());
    let patient = QueuePolicy {
        concurrency: 1,
        retry: RetrySchedule::Fixed {
            delay_ms: 3_600_000,
        },
        ..policy()
    };
    make_queue(&*store, "mail", &patient).await;
    let sink = ScriptedSink::new(|delivery| async move {
        if number(&delivery) == Some(0) && delivery.attempt_no == 1 {
            let wish = Duration::from_millis(700);
            return Verdict::failed(Outcome::Retry, About::Pace, "http_429", "slow down")
                .with_retry_in(Some(wish));
        }
        Verdict::delivered()
    });
    let ids = enqueue(&*store, "mail", 20).await;
    let worker = work(&store, "mail", &sink);
    all_are(&*store, &ids, StateKind::Delivered).await;
    let seen = sink.seen();
    let pause = seen[1].at - seen[0].at;
    assert!(pause >= Duration::from_millis(700), "{pause:?}");
    assert!(pause < Duration::from_millis(2_000), "{pause:?}");
    assert_eq!(
        seen.len(),
        21,
        "the retry came long before the schedule's hour"
    );
    assert_eq!(worker.status().queues[0].breaker, BreakerState::Closed);
    end(&worker, &*store).await;
}

#[tokio::test]
async fn a_probe_that_finds_nothing_to_send_is_left_to_another_queue() {
    let store: Arc<dyn Store> = Arc::new(running_reference());
    make_queue(&*store, "one", &policy()).await;
    make_queue(&*store, "two", &policy()).await;
    let is_up = Arc::new(AtomicBool::new(false));
    let sink = switched(&is_up);
    let ids = enqueue(&*store, "one", 3).await;
    let worker = start(&store, &[("one", &sink), ("two", &sink)]);
    eventually("the breaker opens", SOON, || async {
        worker.status().queues[0].breaker == BreakerState::Open
    })
    .await;
    // What opened it goes away; only the other queue has something to try the sink with.
    eventually("the first queue is empty", SOON, || async {
        !store
            .hold(&ids, &crate::support::by())
            .await
            .unwrap()
            .is_empty()
            && crate::support::state(&*store, ids[0]).await == StateKind::Held
            && crate::support::state(&*store, ids[1]).await == StateKind::Held
            && crate::support::state(&*store, ids[2]).await == StateKind::Held
    })
    .await;
    eventually("a probe found nothing to send", SOON, || async {
        worker.status().queues[0].breaker == BreakerState::HalfOpen
    })
    .await;
    is_up.store(true, SeqCst);
    let others = enqueue(&*store, "two", 3).await;
    all_are(&*store, &others, StateKind::Delivered).await;
    assert_eq!(worker.status().queues[1].breaker, BreakerState::Closed);
    end(&worker, &*store).await;
}
