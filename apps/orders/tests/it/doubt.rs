//! Orders that may have been executed: nobody is told that they certainly were not.

use consign_kernel::{AttemptOutcome, ManualClock, StateKind, Store};
use consign_orders::{
    Adapter, BrokerFailure, ExecResult, LedgerEntry, LedgerStatus, OrdersOptions, Reason,
};
use consign_testkit::eventually;
use jiff::SignedDuration;

use crate::support::{
    Bench, SOON,
    desk::{Desk, Does, fails},
    order, quick,
};

fn three_tries() -> OrdersOptions {
    OrdersOptions {
        outbox_max_attempts: 3,
        ..quick()
    }
}

/// The row says that nobody knows.
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

/// H1 a: the send that was lost counts, not the ones that found nobody.
#[tokio::test]
async fn co33_what_goes_wrong_after_a_lost_answer_does_not_clear_the_order() {
    use AttemptOutcome::Uncertain;
    let stranger = BrokerFailure::new(Reason::BrokerRejected, "401").from_a_stranger();
    let later = [
        fails(Reason::BrokerDown),
        fails(Reason::RateLimited),
        fails(Reason::InternalError),
        Does::Fails(stranger),
    ];
    for does in later {
        let said = format!("{does:?}");
        let desk = Desk::told([Does::Loses, does.clone(), does]);
        let bench = Bench::with(three_tries(), desk, None).await;
        bench.place("key-0001", &[]).await;
        let entry = bench.work_off("key-0001").await;
        assert_in_doubt(&entry);
        assert_eq!(outcomes(&bench).await, [Uncertain; 3], "{said}");
        let replay = bench.place("key-0001", &[]).await;
        assert_eq!(Some(&replay.body), entry.response.as_ref(), "{said}");
        bench.is_sound().await;
    }
}

/// The codes of the attempts stay what they are.
#[tokio::test]
async fn co33_attempts_of_an_order_in_doubt_say_what_went_wrong() {
    let down = || fails(Reason::BrokerDown);
    let desk = Desk::told([Does::Loses, down(), down()]);
    let bench = Bench::with(three_tries(), desk, None).await;
    bench.place("key-0001", &[]).await;
    bench.work_off("key-0001").await;
    let codes = bench.codes("key-0001").await;
    assert_eq!(codes, ["BROKER_TIMEOUT", "BROKER_DOWN", "BROKER_DOWN"]);
}

#[tokio::test]
async fn co33_without_a_doubt_a_failure_is_as_certain_as_it_was() {
    let down = (0..3).map(|_| fails(Reason::BrokerDown));
    let bench = Bench::with(three_tries(), Desk::told(down), None).await;
    bench.place("key-0001", &[]).await;
    assert_eq!(bench.work_off("key-0001").await.http_status, 503);
    assert_eq!(outcomes(&bench).await, [AttemptOutcome::Retry; 3]);
}

/// A broker that recognises keys speaks about the earlier send too.
#[tokio::test]
async fn co33_a_broker_that_takes_keys_clears_the_order_by_rejecting_it() {
    let table = [
        (Reason::BrokerRejected, 400),
        (Reason::ValidationError, 422),
    ];
    for (reason, http_status) in table {
        let desk = Desk::told([Does::Loses, fails(reason)]);
        let bench = Bench::with(three_tries(), desk, None).await;
        bench.place("key-0001", &[]).await;
        let entry = bench.work_off("key-0001").await;
        assert_eq!(entry.http_status, http_status, "{reason}");
    }
}

/// H1 b: a broker without keys whose answer nobody gets.
#[tokio::test]
async fn co33_a_broker_that_cannot_be_asked_leaves_the_order_in_doubt() {
    let options = OrdersOptions {
        broker_adapter: Adapter::Http,
        broker_url: Some("http://127.0.0.1:9/orders".into()),
        broker_status_url: Some("http://127.0.0.1:9/orders/{key}".into()),
        broker_takes_keys: false,
        ..three_tries()
    };
    let desk = Desk::told([Does::Loses]).without_keys().mute();
    let bench = Bench::with(options, desk, None).await;
    bench.place("key-0001", &[]).await;
    is_held(&bench).await;
    assert_eq!(
        bench.codes("key-0001").await,
        ["BROKER_TIMEOUT", "probe_failed", "probe_failed"]
    );
    assert_eq!(bench.desk.sent().len(), 1);
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
    assert_eq!(entry.status, LedgerStatus::Accepted, "nobody knows yet");
}

/// M2: an order whose time is over did not expire if it may have been executed.
#[tokio::test]
async fn co34_an_order_in_doubt_does_not_expire() {
    for desk in [
        Desk::told([Does::Loses]),
        Desk::told([Does::Loses]).askable().mute(),
    ] {
        let clock = ManualClock::at("2026-11-16T00:00:00Z".parse().unwrap());
        let options = OrdersOptions {
            order_max_age_sec: 60,
            outbox_backoff_sec: vec![120.0],
            ..three_tries()
        };
        let bench = Bench::with(options, desk, Some(clock.clone())).await;
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
        assert_eq!(bench.desk.sent().len(), 1, "it is not sent any more");
        worker.drain();
        worker.finished().await;
    }
}

/// M3, CO-29: an order that stands at the broker has not failed.
#[tokio::test]
async fn co29_an_order_that_rests_at_the_broker_may_be_executed_yet() {
    let rests: fn(&mut ExecResult) = |result| {
        result.fills.clear();
        result.executed_qty = "0".parse().unwrap();
    };
    let body = order("key-0001", &[]).replace("\"tags\"", "\"time_in_force\":\"GTC\",\"tags\"");
    let bench = Bench::with(three_tries(), Desk::told([Does::Says(rests)]), None).await;
    assert_eq!(bench.post("key-0001", &body).await.status, 201);
    assert_in_doubt(&bench.work_off("key-0001").await);
    assert_eq!(outcomes(&bench).await, [AttemptOutcome::Uncertain; 3]);

    // One that can be asked, and takes no keys: never sent again, and left to a person.
    let options = OrdersOptions {
        broker_adapter: Adapter::Http,
        broker_url: Some("http://127.0.0.1:9/orders".into()),
        broker_status_url: Some("http://127.0.0.1:9/orders/{key}".into()),
        broker_takes_keys: false,
        ..three_tries()
    };
    let desk = Desk::told([Does::Says(rests)]).without_keys();
    let bench = Bench::with(options, desk, None).await;
    bench.post("key-0001", &body).await;
    is_held(&bench).await;
    assert_eq!((bench.desk.sent().len(), bench.desk.asked()), (1, 2));
}

/// M5: an answer about another order, however final it sounds.
#[tokio::test]
async fn o20_an_answer_about_another_order_does_not_end_ours() {
    let other: fn(&mut ExecResult) = |result| {
        result.order_id = "another".to_owned();
        result.fills.clear();
        result.executed_qty = "0".parse().unwrap();
    };
    let bench = Bench::with(three_tries(), Desk::told([Does::Says(other)]), None).await;
    bench.place("key-0001", &[]).await;
    assert_in_doubt(&bench.work_off("key-0001").await);
}
