//! Brokers without idempotency keys: queried before a resend, or left to an operator.

use consign_kernel::{AttemptOutcome, ManualClock, StateKind, prelude::*};
use consign_orders::{Adapter, LedgerStatus, OrdersOptions, Reason};
use consign_testkit::eventually;
use jiff::SignedDuration;

use crate::support::{
    Bench, SOON,
    fixture::{BrokerAction, Fixture, fails},
    quick,
};

/// Settings as for an http broker; the fixture replaces it.
fn options(status_url: &str) -> OrdersOptions {
    OrdersOptions {
        broker_adapter: Adapter::Http,
        broker_url: Some("http://127.0.0.1:9/orders".into()),
        broker_status_url: Some(status_url.into()),
        broker_takes_keys: false,
        ..quick()
    }
}

fn with_status_query() -> OrdersOptions {
    options("http://127.0.0.1:9/orders/{key}")
}

#[tokio::test]
async fn an_order_in_doubt_is_queried_and_not_sent_twice() {
    let fixture = Fixture::scripted([BrokerAction::Loses]).without_keys();
    let bench = Bench::with(with_status_query(), fixture, None).await;
    bench.place("key-0001", &[]).await;
    let entry = bench.work_off("key-0001").await;
    assert_eq!(
        (entry.status, entry.http_status),
        (LedgerStatus::Succeeded, 200)
    );
    assert!(entry.response.unwrap().contains("\"status\":\"ok\""));
    assert_eq!(bench.codes("key-0001").await, ["BROKER_TIMEOUT", "PROBED"]);
    assert_eq!(
        (bench.fixture.sent().len(), bench.fixture.queries()),
        (1, 1)
    );
    bench.is_sound().await;
}

#[tokio::test]
async fn what_the_broker_never_got_is_sent_again() {
    let fixture = Fixture::scripted([fails(Reason::BrokerTimeout)]).without_keys();
    let bench = Bench::with(with_status_query(), fixture, None).await;
    bench.place("key-0001", &[]).await;
    bench.work_off("key-0001").await;
    assert_eq!(
        bench.codes("key-0001").await,
        ["BROKER_TIMEOUT", "EXECUTED"]
    );
    assert_eq!(
        (bench.fixture.sent().len(), bench.fixture.queries()),
        (2, 1)
    );
}

#[tokio::test]
async fn what_certainly_was_not_sent_needs_no_question() {
    let fixture = Fixture::scripted([fails(Reason::BrokerDown)]).without_keys();
    let bench = Bench::with(with_status_query(), fixture, None).await;
    bench.place("key-0001", &[]).await;
    bench.work_off("key-0001").await;
    assert_eq!(bench.codes("key-0001").await, ["BROKER_DOWN", "EXECUTED"]);
    assert_eq!(bench.fixture.queries(), 0);
}

#[tokio::test]
async fn a_broker_without_keys_or_status_query_leaves_it_to_an_operator() {
    let fixture = Fixture::scripted([BrokerAction::Loses]).without_keys();
    let bench = Bench::with(options(""), fixture, None).await;
    bench.place("key-0001", &[]).await;
    let id = bench.entry("key-0001").await.unwrap().outbox_id.unwrap();
    let worker = bench.work();
    eventually("it is held", SOON, async || {
        let state = bench.store.explain(id).await.unwrap();
        state.is_some_and(|found| found.state.kind() == StateKind::Held)
    })
    .await;
    worker.drain();
    worker.finished().await;
    let attempts = bench.attempts("key-0001").await;
    assert_eq!(attempts.len(), 1);
    assert_eq!(attempts[0].outcome, AttemptOutcome::Uncertain);
    assert_eq!(
        bench.entry("key-0001").await.unwrap().status,
        LedgerStatus::Accepted
    );
    assert_eq!(bench.fixture.sent().len(), 1);
}

/// An order that was executed did not expire, however late that is found out.
#[tokio::test]
async fn an_order_in_doubt_is_queried_before_it_expires() {
    let clock = ManualClock::at("2026-11-16T00:00:00Z".parse().unwrap());
    let options = OrdersOptions {
        order_max_age_sec: 60,
        outbox_backoff_sec: vec![120.0],
        ..quick()
    };
    let table = [
        (BrokerAction::Loses, LedgerStatus::Succeeded, "PROBED"),
        (
            fails(Reason::BrokerTimeout),
            LedgerStatus::Failed,
            "ORDER_EXPIRED",
        ),
    ];
    for (does, status, code) in table {
        // With keys, so that the queue resends; with a status query too.
        let fixture = Fixture::scripted([does]).askable();
        let bench = Bench::with(options.clone(), fixture, Some(clock.clone())).await;
        bench.place("key-0001", &[]).await;
        let worker = bench.work();
        eventually("the first attempt is recorded", SOON, async || {
            bench.attempts("key-0001").await.len() == 1
        })
        .await;
        clock.advance(SignedDuration::from_secs(120));
        let entry = bench.finished("key-0001").await;
        assert_eq!(entry.status, status);
        assert_eq!(bench.codes("key-0001").await, ["BROKER_TIMEOUT", code]);
        assert_eq!(
            (bench.fixture.sent().len(), bench.fixture.queries()),
            (1, 1),
            "{code}"
        );
        worker.drain();
        worker.finished().await;
    }
}
