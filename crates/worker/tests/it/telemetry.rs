//! Metrics, logs and spans of the worker are correct and hold no payload.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use consign_kernel::{NewMessage, Outcome, QueuePolicy, StateKind, Store};
use consign_worker::{About, Verdict, WorkerOptions};
use serde_json::json;

use crate::support::{
    FaultyStore, MetricValues, ScriptedSink, TraceLog, all_are, end, enqueue, make_queue, number,
    options, queue, running_reference, work, work_with,
};

/// A timeout is uncertain, and sent again where `on_uncertain` is `resend`: that is a retry too.
#[tokio::test]
async fn what_is_sent_again_counts_as_a_retry_whatever_it_was_recorded_as() {
    let recorded = MetricValues::install();
    let store: Arc<dyn Store> = Arc::new(running_reference());
    let policy = QueuePolicy {
        retry: consign_kernel::RetrySchedule::Fixed { delay_ms: 1 },
        on_uncertain: consign_kernel::OnUncertain::Resend,
        ..QueuePolicy::default()
    };
    make_queue(&*store, "mail", &policy).await;
    let sink = ScriptedSink::new(|delivery| async move {
        let (outcome, code) = match delivery.attempt_no {
            1 => (Outcome::Uncertain, "timeout"),
            2 => (Outcome::Retry, "down"),
            _ => return Verdict::delivered(),
        };
        Verdict::failed(outcome, About::Message, code, "again")
    });
    let ids = enqueue(&*store, "mail", 1).await;
    let worker = work(&store, "mail", &sink);
    all_are(&*store, &ids, StateKind::Delivered).await;
    end(&worker, &*store).await;
    assert_eq!(recorded.of("consign_retries_total{queue=mail}"), 2);
}

#[tokio::test]
async fn counters_show_what_happened() {
    let recorded = MetricValues::install();
    let faulty = FaultyStore::new(Arc::new(running_reference()));
    let store: Arc<dyn Store> = faulty.clone();
    make_queue(&*store, "mail", &QueuePolicy::default()).await;
    faulty.lose_answer("settle");
    let sink = ScriptedSink::new(|delivery| async move {
        match number(&delivery) {
            Some(0) => Verdict::failed(Outcome::Dead, About::Message, "no", "never"),
            _ => Verdict::delivered(),
        }
    });
    let ids = enqueue(&*store, "mail", 30).await;
    let worker = work(&store, "mail", &sink);
    all_are(&*store, &ids[1..], StateKind::Delivered).await;
    all_are(&*store, &ids[..1], StateKind::Dead).await;
    end(&worker, &*store).await;
    let table = [
        ("consign_claimed_total{queue=mail}", 30),
        ("consign_attempts_total{queue=mail,outcome=delivered}", 29),
        ("consign_attempts_total{queue=mail,outcome=dead}", 1),
        ("consign_attempts_total{queue=mail,outcome=retry}", 0),
        ("consign_retries_total{queue=mail}", 0),
        ("consign_delivery_seconds{queue=mail,outcome=delivered}", 29),
        ("consign_delivery_seconds{queue=mail,outcome=dead}", 1),
        ("consign_database_errors_total{queue=mail}", 1),
        ("consign_leases_lost_total{queue=mail}", 0),
        ("consign_late_results_total{queue=mail}", 0),
        ("consign_in_flight{queue=mail}", 0),
        ("consign_breaker_state{queue=mail,sink=scripted}", 0),
    ];
    for (name, expected) in table {
        assert_eq!(recorded.of(name), expected, "{name}");
    }
    for name in [
        "claim_seconds",
        "claim_messages",
        "settle_seconds",
        "pickup_seconds",
    ] {
        let name = format!("consign_{name}{{queue=mail}}");
        assert!(recorded.of(&name) > 0, "{name}");
    }
}

#[tokio::test]
async fn a_delivery_is_a_span_and_a_failure_is_one_line_without_its_payload() {
    let traced = TraceLog::install();
    let store: Arc<dyn Store> = Arc::new(running_reference());
    make_queue(&*store, "mail", &QueuePolicy::default()).await;
    let secret = NewMessage::new(queue("mail"), json!({"password": "hunter2"}));
    let ids = [store.enqueue(&[secret]).await.unwrap()[0].id];
    let sink = ScriptedSink::new(|_| async {
        Verdict::failed(Outcome::Dead, About::Message, "http_410", "gone")
    });
    let hooked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&hooked);
    let options = WorkerOptions {
        span_hook: Some(Arc::new(move |span, delivery| {
            assert!(!span.is_disabled() && delivery.attempt_no == 1);
            count.fetch_add(1, SeqCst);
        })),
        ..options()
    };
    let worker = work_with(&store, "mail", &sink, options);
    all_are(&*store, &ids, StateKind::Dead).await;
    end(&worker, &*store).await;
    assert_eq!(hooked.load(SeqCst), 1);

    let spans = traced.spans.lock().unwrap().join("\n");
    let id = ids[0];
    for part in [
        "otel.name=\"deliver mail\"",
        "messaging.system=\"consign\"",
        "messaging.destination.name=mail",
        &format!("messaging.message.id={id}"),
        "attempt=1",
        "outcome=\"dead\"",
        "error.type=\"http_410\"",
    ] {
        assert!(spans.contains(part), "{part} in {spans}");
    }
    let lines = traced.lines.lock().unwrap().clone();
    let failures: Vec<&String> = lines
        .iter()
        .filter(|line| line.starts_with("WARN"))
        .collect();
    assert_eq!(failures.len(), 1, "{lines:?}");
    let said = format!("queue mail: message {id} was not delivered (http_410): gone");
    assert!(failures[0].contains(&said), "{failures:?}");
    assert!(!format!("{spans}{lines:?}").contains("hunter2"));
}
