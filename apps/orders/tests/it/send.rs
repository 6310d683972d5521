//! Sending: what each answer of the broker leads to.

use consign_kernel::AttemptOutcome;
use consign_kernel::prelude::*;
use consign_orders::{BrokerFailure, FinalResult, LedgerStatus, OrdersOptions, Reason};
use consign_testkit::eventually;

use crate::support::{
    Bench, SOON,
    fixture::{BrokerAction, Fixture, fails},
    order, quick,
};

async fn run(script: impl IntoIterator<Item = BrokerAction>, attempts_max: u32) -> Bench {
    let options = OrdersOptions {
        outbox_max_attempts: attempts_max,
        ..quick()
    };
    let bench = Bench::with(options, Fixture::scripted(script), None).await;
    assert_eq!(bench.place("key-0001", &[]).await.status, 201);
    bench.work_off("key-0001").await;
    bench
}

#[tokio::test]
async fn the_ledger_stores_the_result_of_an_executed_order() {
    let bench = run([], 6).await;
    let entry = bench.entry("key-0001").await.unwrap();
    assert_eq!(
        (entry.status, entry.http_status),
        (LedgerStatus::Succeeded, 200)
    );
    assert_eq!(bench.codes("key-0001").await, ["EXECUTED"]);
    let sent = bench.fixture.sent();
    assert_eq!((sent.len(), sent[0].key.as_str()), (1, "desk-7/key-0001"));
    let result: consign_orders::ExecResult =
        serde_json::from_str(entry.response.as_deref().unwrap()).unwrap();
    assert_eq!(Some(result.digest()), entry.result_digest);
    assert_eq!(result.idempotency_key.as_deref(), Some("key-0001"));
    bench.is_sound().await;
}

/// Which failures are tried again, and which end at once.
#[tokio::test]
async fn each_failure_is_retried_or_final() {
    use AttemptOutcome::{Dead, Delivered, Retry, Uncertain};
    let strange: fn(&mut consign_orders::ExecResult) = |result| result.fills.clear();
    let table = [
        (fails(Reason::BrokerTimeout), Uncertain, 200),
        (fails(Reason::BrokerDown), Retry, 200),
        (fails(Reason::InternalError), Retry, 200),
        (BrokerAction::Loses, Uncertain, 200),
        (BrokerAction::Hangs, Uncertain, 200),
        (fails(Reason::BrokerRejected), Dead, 400),
        (fails(Reason::ValidationError), Dead, 422),
        // Executed without a fill is not a valid answer; a retry may bring one.
        (BrokerAction::Says(strange), Uncertain, 504),
    ];
    for (does, first, http_status) in table {
        let context = format!("{does:?}");
        let bench = run([does], 2).await;
        let attempts = bench.attempts("key-0001").await;
        let outcomes: Vec<_> = attempts.iter().map(|attempt| attempt.outcome).collect();
        let entry = bench.entry("key-0001").await.unwrap();
        let expected = match (first, http_status) {
            (Dead, _) => vec![Dead],
            (first, 200) => vec![first, Delivered],
            (first, _) => vec![first, first],
        };
        assert_eq!(
            (outcomes, entry.http_status),
            (expected, http_status),
            "{context}"
        );
        for attempt in attempts {
            let result = attempt
                .result
                .unwrap_or_else(|| panic!("{context}: no result"));
            let ended: FinalResult = serde_json::from_value(result).unwrap();
            assert!(ended.result_digest.starts_with("sha256:"), "{context}");
            assert!(attempt.code.is_some(), "{context}");
        }
        let bodies: Vec<_> = bench
            .fixture
            .sent()
            .into_iter()
            .map(|sent| sent.order)
            .collect();
        assert!(
            bodies.iter().all(|body| *body == bodies[0]),
            "{context}: the same every time"
        );
        bench.is_sound().await;
    }
}
#[tokio::test]
async fn the_last_send_aborts_and_a_requeue_starts_anew() {
    let timeouts = (0..6).map(|_| fails(Reason::BrokerTimeout));
    let bench = run(timeouts, 6).await;
    let entry = bench.entry("key-0001").await.unwrap();
    assert_eq!(
        (entry.status, entry.http_status),
        (LedgerStatus::Failed, 504)
    );
    assert_eq!(bench.fixture.sent().len(), 6, "no seventh");
    let id = entry.outbox_id.unwrap();
    let by = consign_kernel::By::new("test", "the broker is back");
    bench.store.requeue(&[id], &by).await.unwrap();
    let open = bench.entry("key-0001").await.unwrap();
    assert_eq!((open.status, open.response), (LedgerStatus::Accepted, None));
    let done = bench.work_off("key-0001").await;
    assert_eq!(done.status, LedgerStatus::Succeeded);
    bench.is_sound().await;
}

/// The broker's wish goes before the table of delays.
#[tokio::test]
async fn a_busy_broker_is_retried_after_its_delay() {
    let wish = std::time::Duration::from_millis(400);
    let busy = BrokerFailure::new(Reason::RateLimited, "not now").with_retry_in(Some(wish));
    let bench = run([BrokerAction::Fails(busy)], 3).await;
    let attempts = bench.attempts("key-0001").await;
    assert_eq!(bench.codes("key-0001").await, ["RATE_LIMITED", "EXECUTED"]);
    let waited = attempts[1]
        .claimed_at
        .duration_since(attempts[0].finished_at);
    assert!(waited >= wish.try_into().unwrap(), "{waited}");
}

/// A partly filled fill-or-kill order is final, and its result shows the fills.
#[tokio::test]
async fn a_partly_filled_fill_or_kill_is_an_error_and_final() {
    let half: fn(&mut consign_orders::ExecResult) = |result| {
        result.executed_qty = "0.05".parse().unwrap();
        result.fills[0].qty = result.executed_qty;
    };
    let bench = Bench::with(quick(), Fixture::scripted([BrokerAction::Says(half)]), None).await;
    let body = order("key-0001", &[]).replace("\"tags\"", "\"time_in_force\":\"FOK\",\"tags\"");
    assert_eq!(bench.post("key-0001", &body).await.status, 201);
    let entry = bench.work_off("key-0001").await;
    assert_eq!(
        (entry.status, entry.http_status),
        (LedgerStatus::Failed, 400)
    );
    let result = consign_orders::ExecResult::parse(&entry.response.unwrap()).unwrap();
    assert_eq!(result.status, consign_orders::ExecStatus::Error);
    assert_eq!(
        (result.executed_qty, result.fills.len()),
        ("0.05".parse().unwrap(), 1)
    );
    assert_eq!(result.fills[0].qty, result.executed_qty);
    assert!(result.broker.order_ref.is_some());
    assert_eq!(bench.fixture.sent().len(), 1);
}

/// A broker's message is masked and short wherever it is stored.
#[tokio::test]
async fn secrets_and_keys_in_broker_messages_are_masked() {
    let options: OrdersOptions = OrdersOptions {
        broker_api_key: Some("tulip-and-rose".to_owned().into()),
        ..quick()
    };
    let context = format!("desk-7/key-0001 tulip-and-rose {}", "x".repeat(2_000));
    let blab = BrokerFailure::new(Reason::BrokerRejected, context);
    let bench = Bench::with(
        options,
        Fixture::scripted([BrokerAction::Fails(blab)]),
        None,
    )
    .await;
    bench.place("key-0001", &[]).await;
    let entry = bench.work_off("key-0001").await;
    let attempt = bench.attempts("key-0001").await.pop().unwrap();
    let detail = attempt.detail.unwrap();
    assert!(detail.chars().count() <= 512, "{}", detail.len());
    let message: serde_json::Value = serde_json::from_str(&entry.response.unwrap()).unwrap();
    let message = message["message"].as_str().unwrap();
    for text in [&detail, message] {
        assert!(
            !text.contains("tulip") && !text.contains("key-0001"),
            "{text}"
        );
    }
}

/// A broker that repeats a credential in its name for an order, in a result and in a refused one.
#[tokio::test]
async fn secrets_in_a_brokers_reference_are_masked() {
    let options = || OrdersOptions {
        broker_api_key: Some("tulip-and-rose".to_owned().into()),
        ..quick()
    };
    let blab: fn(&mut consign_orders::ExecResult) =
        |result| result.broker.order_ref = Some("B-17/tulip-and-rose".to_owned());
    let half: fn(&mut consign_orders::ExecResult) = |result| {
        result.broker.order_ref = Some("B-17/tulip-and-rose".to_owned());
        result.executed_qty = "0.05".parse().unwrap();
        result.fills.truncate(1);
        result.fills[0].qty = result.executed_qty;
    };
    for says in [blab, half] {
        let bench = Bench::with(
            options(),
            Fixture::scripted([BrokerAction::Says(says)]),
            None,
        )
        .await;
        bench.place("key-0001", &[]).await;
        let entry = bench.work_off("key-0001").await;
        let attempts = bench.attempts("key-0001").await;
        let kept = format!("{entry:?} {attempts:?}");
        assert!(kept.contains("B-17/[REDACTED]"), "{kept}");
        assert!(!kept.contains("tulip"), "{kept}");
    }
}

/// What waits is in the outbox, not in a lease.
#[tokio::test]
async fn only_free_slots_are_claimed() {
    let options = OrdersOptions {
        broker_timeout_ms: 60_000,
        ..quick()
    };
    let bench = Bench::new(options).await;
    let worker = bench.work();
    // A worker with a quick broker would prefetch more.
    for number in 0..8 {
        let key = format!("key-{number:04}");
        bench.place(&key, &[]).await;
        bench.finished(&key).await;
    }
    bench.fixture.open(false);
    for number in 8..28 {
        bench.place(&format!("key-{number:04}"), &[]).await;
    }
    let four = async || bench.fixture.sent().len() == 12;
    eventually("four are under way", SOON, four).await;
    let leased = bench.store.leases(100).await.unwrap();
    let held: usize = leased.iter().map(|lease| lease.ids.len()).sum();
    assert_eq!(held, 4, "{leased:?}");
    bench.fixture.open(true);
    for number in 8..28 {
        bench.finished(&format!("key-{number:04}")).await;
    }
    assert_eq!(bench.fixture.under_way_max(), 4);
    assert_eq!(bench.fixture.sent().len(), 28);
    worker.drain();
    worker.finished().await;
    bench.is_sound().await;
}

/// Our own database being away costs an order nothing.
#[tokio::test]
async fn an_unavailable_ledger_costs_no_attempt() {
    let bench = Bench::new(quick()).await;
    bench.place("key-0001", &[]).await;
    bench.ledger.fail("verify", 5);
    bench.work_off("key-0001").await;
    assert_eq!(bench.codes("key-0001").await, ["EXECUTED"]);
}

/// A broker that is not there is left alone, and no order pays for it.
#[tokio::test]
async fn the_breaker_opens_by_the_share_of_the_last_calls() {
    let options = OrdersOptions {
        breaker_calls: 4,
        breaker_open_sec: 0.3,
        outbox_backoff_sec: vec![0.001],
        outbox_max_attempts: 10,
        outbox_concurrency: 1,
        ..quick()
    };
    let down = (0..4).map(|_| fails(Reason::BrokerDown));
    let bench = Bench::with(options, Fixture::scripted(down), None).await;
    bench.place("key-0001", &[]).await;
    let worker = bench.work();
    eventually("the breaker opens", SOON, async || {
        worker.status().queues[0].breaker == consign_worker::BreakerState::Open
    })
    .await;
    assert_eq!(bench.fixture.sent().len(), 4);
    bench.finished("key-0001").await;
    let attempts = bench.attempts("key-0001").await;
    let paused = attempts[4]
        .claimed_at
        .duration_since(attempts[3].finished_at);
    assert!(paused >= jiff::SignedDuration::from_millis(200), "{paused}");
    worker.drain();
    worker.finished().await;
}
