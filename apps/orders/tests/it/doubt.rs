//! Orders that may have been executed are never reported as certainly not executed.

use consign_kernel::{AttemptOutcome, ManualClock, StateKind, prelude::*};
use consign_orders::{
    Adapter, BrokerFailure, ExecResult, LedgerEntry, LedgerStatus, OrdersOptions, Reason,
};
use consign_testkit::eventually;
use jiff::SignedDuration;

use crate::support::{
    Bench, SOON,
    fixture::{BrokerAction, Fixture, fails},
    order, quick,
};

fn three_tries() -> OrdersOptions {
    OrdersOptions {
        outbox_max_attempts: 3,
        ..quick()
    }
}

/// The row reports an unknown outcome.
fn assert_in_doubt(entry: &LedgerEntry) {
    assert_eq!(
        (entry.status, entry.http_status),
        (LedgerStatus::Failed, 504)
    );
    let result = ExecResult::parse(entry.response.as_deref().unwrap()).unwrap();
    assert_eq!(result.reason_code, Some(Reason::BrokerTimeout));
    let message = result.message.unwrap();
    assert!(message.contains("may have been executed"), "{message}");
}

async fn outcomes(bench: &Bench) -> Vec<AttemptOutcome> {
    let attempts = bench.attempts("key-0001").await;
    attempts.iter().map(|attempt| attempt.outcome).collect()
}

/// The lost send counts, not the ones that found the broker unreachable.
#[tokio::test]
async fn a_failure_after_a_lost_answer_leaves_the_order_in_doubt() {
    use AttemptOutcome::Uncertain;
    let stranger = BrokerFailure::new(Reason::BrokerRejected, "401").not_from_broker();
    let later = [
        fails(Reason::BrokerDown),
        fails(Reason::RateLimited),
        fails(Reason::InternalError),
        BrokerAction::Fails(stranger),
    ];
    for does in later {
        let context = format!("{does:?}");
        let fixture = Fixture::scripted([BrokerAction::Loses, does.clone(), does]);
        let bench = Bench::with(three_tries(), fixture, None).await;
        bench.place("key-0001", &[]).await;
        let entry = bench.work_off("key-0001").await;
        assert_in_doubt(&entry);
        assert_eq!(outcomes(&bench).await, [Uncertain; 3], "{context}");
        let replay = bench.place("key-0001", &[]).await;
        assert_eq!(Some(&replay.body), entry.response.as_ref(), "{context}");
        bench.is_sound().await;
    }
}

/// The codes of the attempts stay what they are.
#[tokio::test]
async fn attempts_of_an_order_in_doubt_record_the_error() {
    let down = || fails(Reason::BrokerDown);
    let fixture = Fixture::scripted([BrokerAction::Loses, down(), down()]);
    let bench = Bench::with(three_tries(), fixture, None).await;
    bench.place("key-0001", &[]).await;
    bench.work_off("key-0001").await;
    let codes = bench.codes("key-0001").await;
    assert_eq!(codes, ["BROKER_TIMEOUT", "BROKER_DOWN", "BROKER_DOWN"]);
}

#[tokio::test]
async fn a_failure_without_doubt_is_final() {
    let down = (0..3).map(|_| fails(Reason::BrokerDown));
    let bench = Bench::with(three_tries(), Fixture::scripted(down), None).await;
    bench.place("key-0001", &[]).await;
    assert_eq!(bench.work_off("key-0001").await.http_status, 503);
    assert_eq!(outcomes(&bench).await, [AttemptOutcome::Retry; 3]);
}

/// A broker that recognises keys reports on the earlier send too.
#[tokio::test]
async fn a_broker_that_takes_keys_clears_the_order_by_rejecting_it() {
    let table = [
        (Reason::BrokerRejected, 400),
        (Reason::ValidationError, 422),
    ];
    for (reason, http_status) in table {
        let fixture = Fixture::scripted([BrokerAction::Loses, fails(reason)]);
        let bench = Bench::with(three_tries(), fixture, None).await;
        bench.place("key-0001", &[]).await;
        let entry = bench.work_off("key-0001").await;
        assert_eq!(entry.http_status, http_status, "{reason}");
    }
}

/// A broker without keys whose answer is lost.
#[tokio::test]
async fn a_broker_without_status_query_leaves_the_order_in_doubt() {
    let options = OrdersOptions {
        broker_adapter: Adapter::Http,
        broker_url: Some("http://127.0.0.1:9/orders".into()),
        broker_status_url: Some("http://127.0.0.1:9/orders/{key}".into()),
        broker_takes_keys: false,
        ..three_tries()
    };
    let fixture = Fixture::scripted([BrokerAction::Loses])
        .without_keys()
        .mute();
    let bench = Bench::with(options, fixture, None).await;
    bench.place("key-0001", &[]).await;
    is_held(&bench).await;
    assert_eq!(
        bench.codes("key-0001").await,
        ["BROKER_TIMEOUT", "probe_failed", "probe_failed"]
    );
    assert_eq!(bench.fixture.sent().len(), 1);
}

/// Works until the order is left to a person.
async fn is_held(bench: &Bench) {
    let id = bench.entry("key-0001").await.unwrap().outbox_id.unwrap();
    let worker = bench.work();
    eventually("it is held", SOON, async || {
        let state = bench.store.explain(id).await.unwrap();
        state.is_some_and(|found| found.state.kind() == StateKind::Held)
    })
    .await;
    worker.drain();
    worker.finished().await;
    let entry = bench.entry("key-0001").await.unwrap();
    assert_eq!(
        entry.status,
        LedgerStatus::Accepted,
        "the outcome is not known yet"
    );
}

/// An order whose time is over did not expire if it may have been executed.
#[tokio::test]
async fn an_order_in_doubt_does_not_expire() {
    for fixture in [
        Fixture::scripted([BrokerAction::Loses]),
        Fixture::scripted([BrokerAction::Loses]).askable().mute(),
    ] {
        let clock = ManualClock::at("2026-11-16T00:00:00Z".parse().unwrap());
        let options = OrdersOptions {
            order_max_age_sec: 60,
            outbox_backoff_sec: vec![120.0],
            ..three_tries()
        };
        let bench = Bench::with(options, fixture, Some(clock.clone())).await;
        bench.place("key-0001", &[]).await;
        let worker = bench.work();
        for count in 1..=3 {
            eventually("the next attempt is recorded", SOON, async || {
                bench.attempts("key-0001").await.len() == count
            })
            .await;
            clock.advance(SignedDuration::from_secs(120));
        }
        assert_in_doubt(&bench.finished("key-0001").await);
        assert_eq!(
            bench.codes("key-0001").await,
            ["BROKER_TIMEOUT", "ORDER_EXPIRED", "ORDER_EXPIRED"]
        );
        assert_eq!(bench.fixture.sent().len(), 1, "it is not sent any more");
        worker.drain();
        worker.finished().await;
    }
}

/// An order that is open at the broker has not failed.
#[tokio::test]
async fn an_order_that_rests_at_the_broker_may_be_executed_yet() {
    let rests: fn(&mut ExecResult) = |result| {
        result.fills.clear();
        result.executed_qty = "0".parse().unwrap();
    };
    let body = order("key-0001", &[]).replace("\"tags\"", "\"time_in_force\":\"GTC\",\"tags\"");
    let bench = Bench::with(
        three_tries(),
        Fixture::scripted([BrokerAction::Says(rests)]),
        None,
    )
    .await;
    assert_eq!(bench.post("key-0001", &body).await.status, 201);
    assert_in_doubt(&bench.work_off("key-0001").await);
    assert_eq!(outcomes(&bench).await, [AttemptOutcome::Uncertain; 3]);

    // A broker with a status query and without keys: never sent again, and held for an operator.
    let options = OrdersOptions {
        broker_adapter: Adapter::Http,
        broker_url: Some("http://127.0.0.1:9/orders".into()),
        broker_status_url: Some("http://127.0.0.1:9/orders/{key}".into()),
        broker_takes_keys: false,
        ..three_tries()
    };
    let fixture = Fixture::scripted([BrokerAction::Says(rests)]).without_keys();
    let bench = Bench::with(options, fixture, None).await;
    bench.post("key-0001", &body).await;
    is_held(&bench).await;
    assert_eq!(
        (bench.fixture.sent().len(), bench.fixture.queries()),
        (1, 2)
    );
}

/// An answer about another order, however final it sounds.
#[tokio::test]
async fn an_answer_about_another_order_does_not_end_ours() {
    let other: fn(&mut ExecResult) = |result| {
        result.order_id = "another".to_owned();
        result.fills.clear();
        result.executed_qty = "0".parse().unwrap();
    };
    let bench = Bench::with(
        three_tries(),
        Fixture::scripted([BrokerAction::Says(other)]),
        None,
    )
    .await;
    bench.place("key-0001", &[]).await;
    assert_in_doubt(&bench.work_off("key-0001").await);
}
