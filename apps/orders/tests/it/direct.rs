//! Without the outbox: one send within the request.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use consign_kernel::ManualClock;
use consign_orders::{LedgerStatus, OrdersOptions, Reason, metrics::ORDER_RESULTS_DROPPED_TOTAL};
use consign_testkit::eventually;
use jiff::SignedDuration;
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, SharedString, Unit};
use serde_json::json;

use crate::support::{
    Bench, SOON,
    fixture::{BrokerAction, Fixture, fails},
    json as body_of, order, place, quick,
};

fn direct() -> OrdersOptions {
    OrdersOptions {
        outbox_enabled: false,
        ..quick()
    }
}

/// The same ledger, no message, no retry.
#[tokio::test]
async fn a_direct_order_is_sent_once_and_its_result_is_stored() {
    let script = [
        fails(Reason::BrokerRejected),
        fails(Reason::BrokerDown),
        BrokerAction::Loses,
        BrokerAction::Hangs,
    ];
    let bench = Bench::with(direct(), Fixture::scripted(script), None).await;
    let table = [
        ("key-rejected", 400, "BROKER_REJECTED"),
        ("key-is-down", 503, "BROKER_DOWN"),
        ("key-was-lost", 504, "BROKER_TIMEOUT"),
        ("key-no-answer", 504, "BROKER_TIMEOUT"),
    ];
    for (key, status, reason) in table {
        let answer = bench.place(key, &[]).await;
        assert_eq!(
            (answer.status, &body_of(&answer)["reason_code"]),
            (status, &json!(reason))
        );
        let replay = bench.place(key, &[]).await;
        assert_eq!(
            (replay.status, &replay.body),
            (status, &answer.body),
            "{key}"
        );
        let entry = bench.entry(key).await.unwrap();
        assert_eq!(
            (entry.status, entry.outbox_id),
            (LedgerStatus::Failed, None)
        );
    }
    let done = bench.place("key-done", &[]).await;
    assert_eq!(
        (done.status, &body_of(&done)["status"]),
        (201, &json!("ok"))
    );
    let replay = bench.place("key-done", &[]).await;
    assert_eq!((replay.status, &replay.body), (200, &done.body));
    assert_eq!(bench.fixture.sent().len(), 5, "one send each");
    assert_eq!(bench.count("message").await, 0);
    bench.is_sound().await;
}

/// A ledger that is away for a moment repeats the recording, never the send.
#[tokio::test]
async fn a_result_that_cannot_be_recorded_at_once_is_recorded_later() {
    let bench = Bench::with(direct(), Fixture::default(), None).await;
    bench.ledger.fail("close_direct", 4);
    let answer = bench.place("key-0001", &[]).await;
    assert_eq!(
        (answer.status, &body_of(&answer)["status"]),
        (201, &json!("ok"))
    );
    assert_eq!(bench.fixture.sent().len(), 1);
}

#[tokio::test]
async fn who_hangs_up_does_not_end_the_send() {
    let bench = Bench::with(direct(), Fixture::default(), None).await;
    bench.fixture.open(false);
    let service = Arc::clone(&bench.service);
    let call =
        tokio::spawn(
            async move { place(&service, "key-0001", &order("key-0001", &[]), None).await },
        );
    eventually("it is sent", SOON, async || bench.fixture.sent().len() == 1).await;
    let meanwhile = bench.place("key-0001", &[]).await;
    assert_eq!(
        (meanwhile.status, &body_of(&meanwhile)["status"]),
        (200, &json!("accepted"))
    );
    call.abort();
    call.await.unwrap_err();
    bench.fixture.open(true);
    let entry = bench.finished("key-0001").await;
    assert_eq!(entry.status, LedgerStatus::Succeeded);
    assert_eq!(bench.fixture.sent().len(), 1);
}

/// The outcome of an order whose server died is unknown; after the time limit the ledger returns it
/// as failed.
#[tokio::test]
async fn an_order_without_a_result_is_given_up() {
    let clock = ManualClock::at("2026-11-16T00:00:00Z".parse().unwrap());
    let options = OrdersOptions {
        broker_timeout_ms: 600_000,
        ..direct()
    };
    let bench = Bench::with(
        options,
        Fixture::scripted([BrokerAction::Hangs]),
        Some(clock),
    )
    .await;
    let service = Arc::clone(&bench.service);
    let call =
        tokio::spawn(
            async move { place(&service, "key-0001", &order("key-0001", &[]), None).await },
        );
    eventually("it is sent", SOON, async || bench.fixture.sent().len() == 1).await;
    let clock = bench.clock.as_ref().unwrap();
    clock.advance(SignedDuration::from_secs(605));
    assert_eq!(
        bench.entry("key-0001").await.unwrap().status,
        LedgerStatus::Accepted
    );
    clock.advance(SignedDuration::from_secs(10));
    let replay = place(&bench.service, "key-0001", &order("key-0001", &[]), None).await;
    assert_eq!(
        (replay.status, &body_of(&replay)["reason_code"]),
        (504, &json!("BROKER_TIMEOUT"))
    );
    assert_eq!(bench.fixture.sent().len(), 1, "never a second send");
    call.abort();
    assert!(bench.options.wait_max() > Duration::ZERO);
}

/// Counts one metric, whatever its labels.
struct MetricCounter(&'static str, Arc<AtomicU64>);

impl metrics::Recorder for MetricCounter {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        if key.name() == self.0 {
            Counter::from_arc(Arc::clone(&self.1))
        } else {
            Counter::noop()
        }
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

/// A broker's answer after the ledger gave the order up changes nothing, but is logged.
#[tokio::test]
async fn a_late_result_is_counted() {
    let dropped = Arc::new(AtomicU64::new(0));
    let counted = MetricCounter(ORDER_RESULTS_DROPPED_TOTAL, Arc::clone(&dropped));
    // Everything here runs on this thread.
    let _guard = metrics::set_default_local_recorder(&counted);
    let clock = ManualClock::at("2026-11-16T00:00:00Z".parse().unwrap());
    let options = OrdersOptions {
        broker_timeout_ms: 60_000,
        ..direct()
    };
    let bench = Bench::with(options, Fixture::default(), Some(clock)).await;
    assert_eq!(bench.place("key-0000", &[]).await.status, 201);
    assert_eq!(dropped.load(SeqCst), 0, "recorded in time");
    bench.fixture.open(false);
    let service = Arc::clone(&bench.service);
    let call =
        tokio::spawn(
            async move { place(&service, "key-0001", &order("key-0001", &[]), None).await },
        );
    eventually("it is sent", SOON, async || bench.fixture.sent().len() == 2).await;
    let clock = bench.clock.as_ref().unwrap();
    clock.advance(SignedDuration::from_secs(100));
    let given_up = bench.place("key-0001", &[]).await;
    assert_eq!(given_up.status, 504);
    bench.fixture.open(true);
    let late = call.await.unwrap();
    assert_eq!(
        (late.status, &late.body),
        (504, &given_up.body),
        "the ledger's state counts"
    );
    assert_eq!(dropped.load(SeqCst), 1);
}
