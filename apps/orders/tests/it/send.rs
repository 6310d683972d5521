//! Sending: what each answer of the broker leads to.

use consign_kernel::{AttemptOutcome, Store};
use consign_orders::{BrokerFailure, Ended, LedgerStatus, OrdersOptions, Reason};
use consign_testkit::eventually;

use crate::support::{
    Bench, SOON,
    desk::{Desk, Does, fails},
    order, quick,
};

async fn run(script: impl IntoIterator<Item = Does>, attempts_max: u32) -> Bench {
    let options = OrdersOptions {
        outbox_max_attempts: attempts_max,
        ..quick()
    };
    let bench = Bench::with(options, Desk::told(script), None).await;
    assert_eq!(bench.place("key-0001", &[]).await.status, 201);
    bench.work_off("key-0001").await;
    bench
}

/// W-101, O-01.
#[tokio::test]
async fn w101_an_executed_order_is_in_the_ledger_as_it_was_answered() {
    let bench = run([], 6).await;
    let entry = bench.entry("key-0001").await.unwrap();
    assert_eq!(
        (entry.status, entry.http_status),
        (LedgerStatus::Succeeded, 200)
    );
    assert_eq!(bench.codes("key-0001").await, ["EXECUTED"]);
    let sent = bench.desk.sent();
    assert_eq!((sent.len(), sent[0].key.as_str()), (1, "desk-7/key-0001"));
    let result: consign_orders::ExecResult =
        serde_json::from_str(entry.response.as_deref().unwrap()).unwrap();
    assert_eq!(Some(result.digest()), entry.result_digest);
    assert_eq!(result.idempotency_key.as_deref(), Some("key-0001"));
    bench.is_sound().await;
}

/// W-102, O-07, O-11: which failures are tried again, and which end at once.
#[tokio::test]
async fn w102_o11_each_failure_is_retried_or_final() {
    use AttemptOutcome::{Dead, Delivered, Retry, Uncertain};
    let strange: fn(&mut consign_orders::ExecResult) = |result| result.fills.clear();
    let table = [
        (fails(Reason::BrokerTimeout), Uncertain, 200),
        (fails(Reason::BrokerDown), Retry, 200),
        (fails(Reason::InternalError), Retry, 200),
        (Does::Loses, Uncertain, 200),
        (Does::Hangs, Uncertain, 200),
        (fails(Reason::BrokerRejected), Dead, 400),
        (fails(Reason::ValidationError), Dead, 422),
        // O-20: executed without a fill is no answer; asking again may bring a better one.
        (Does::Says(strange), Uncertain, 504),
    ];
    for (does, first, http_status) in table {
        let said = format!("{does:?}");
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
            "{said}"
        );
        for attempt in attempts {
            let result = attempt
                .result
                .unwrap_or_else(|| panic!("{said}: no result"));
            let ended: Ended = serde_json::from_value(result).unwrap();
            assert!(ended.result_digest.starts_with("sha256:"), "{said}");
            assert!(attempt.code.is_some(), "{said}");
        }
        let bodies: Vec<_> = bench
            .desk
            .sent()
            .into_iter()
            .map(|sent| sent.order)
            .collect();
        assert!(
            bodies.iter().all(|body| *body == bodies[0]),
            "{said}: the same every time"
        );
        bench.is_sound().await;
    }
}

/// W-104, O-10: the cap counts sends.
#[tokio::test]
async fn w104_after_the_last_send_it_failed_and_a_requeue_starts_anew() {
    let timeouts = (0..6).map(|_| fails(Reason::BrokerTimeout));
    let bench = run(timeouts, 6).await;
    let entry = bench.entry("key-0001").await.unwrap();
    assert_eq!(
        (entry.status, entry.http_status),
        (LedgerStatus::Failed, 504)
    );
    assert_eq!(bench.desk.sent().len(), 6, "no seventh");
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
async fn a_busy_broker_is_left_alone_for_as_long_as_it_asks() {
    let wish = std::time::Duration::from_millis(400);
    let busy = BrokerFailure::new(Reason::RateLimited, "not now").with_retry_in(Some(wish));
    let bench = run([Does::Fails(busy)], 3).await;
    let attempts = bench.attempts("key-0001").await;
    assert_eq!(bench.codes("key-0001").await, ["RATE_LIMITED", "EXECUTED"]);
    let waited = attempts[1]
        .claimed_at
        .duration_since(attempts[0].finished_at);
    assert!(waited >= wish.try_into().unwrap(), "{waited}");
}

/// O-20, CO-35: a partly filled fill-or-kill is final, and nobody is told that nothing happened.
#[tokio::test]
async fn o20_a_partly_filled_fill_or_kill_is_an_error_and_final() {
    let half: fn(&mut consign_orders::ExecResult) = |result| {
        result.executed_qty = "0.05".parse().unwrap();
        result.fills[0].qty = result.executed_qty;
    };
    let bench = Bench::with(quick(), Desk::told([Does::Says(half)]), None).await;
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
    assert_eq!(bench.desk.sent().len(), 1);
}

/// O-22: what the broker says is masked and short wherever it is kept.
#[tokio::test]
async fn o22_secrets_and_keys_in_the_brokers_words_are_masked() {
    let options: OrdersOptions = OrdersOptions {
        broker_api_key: Some("tulip-and-rose".to_owned().into()),
        ..quick()
    };
    let said = format!("desk-7/key-0001 tulip-and-rose {}", "x".repeat(2_000));
    let blab = BrokerFailure::new(Reason::BrokerRejected, said);
    let bench = Bench::with(options, Desk::told([Does::Fails(blab)]), None).await;
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
        let bench = Bench::with(options(), Desk::told([Does::Says(says)]), None).await;
        bench.place("key-0001", &[]).await;
        let entry = bench.work_off("key-0001").await;
        let attempts = bench.attempts("key-0001").await;
        let kept = format!("{entry:?} {attempts:?}");
        assert!(kept.contains("B-17/***"), "{kept}");
        assert!(!kept.contains("tulip"), "{kept}");
    }
}

/// O-17, CO-36: what waits is in the outbox, not in a lease.
#[tokio::test]
async fn o17_only_free_slots_are_claimed() {
    let options = OrdersOptions {
        broker_timeout_ms: 60_000,
        ..quick()
    };
    let bench = Bench::new(options).await;
    let worker = bench.work();
    // A worker that knows the broker to be quick would like to have more at hand.
    for number in 0..8 {
        let key = format!("key-{number:04}");
        bench.place(&key, &[]).await;
        bench.finished(&key).await;
    }
    bench.desk.open(false);
    for number in 8..28 {
        bench.place(&format!("key-{number:04}"), &[]).await;
    }
    let four = async || bench.desk.sent().len() == 12;
    eventually("four are under way", SOON, four).await;
    let leased = bench.store.leases(100).await.unwrap();
    let held: usize = leased.iter().map(|lease| lease.ids.len()).sum();
    assert_eq!(held, 4, "{leased:?}");
    bench.desk.open(true);
    for number in 8..28 {
        bench.finished(&format!("key-{number:04}")).await;
    }
    assert_eq!(bench.desk.under_way_max(), 4);
    assert_eq!(bench.desk.sent().len(), 28);
    worker.drain();
    worker.finished().await;
    bench.is_sound().await;
}

/// Our own database being away costs an order nothing.
#[tokio::test]
async fn a_ledger_that_cannot_be_asked_for_a_while_costs_no_attempt() {
    let bench = Bench::new(quick()).await;
    bench.place("key-0001", &[]).await;
    bench.ledger.fail("verify", 5);
    bench.work_off("key-0001").await;
    assert_eq!(bench.codes("key-0001").await, ["EXECUTED"]);
}

/// Facts A10: a broker that is not there is left alone, and no order pays for it.
#[tokio::test]
async fn a10_the_breaker_opens_by_the_share_of_the_last_calls() {
    let options = OrdersOptions {
        breaker_calls: 4,
        breaker_open_sec: 0.3,
        outbox_backoff_sec: vec![0.001],
        outbox_max_attempts: 10,
        outbox_concurrency: 1,
        ..quick()
    };
    let down = (0..4).map(|_| fails(Reason::BrokerDown));
    let bench = Bench::with(options, Desk::told(down), None).await;
    bench.place("key-0001", &[]).await;
    let worker = bench.work();
    eventually("the breaker opens", SOON, async || {
        worker.status().queues[0].breaker == consign_worker::BreakerState::Open
    })
    .await;
    assert_eq!(bench.desk.sent().len(), 4);
    bench.finished("key-0001").await;
    let attempts = bench.attempts("key-0001").await;
    let paused = attempts[4]
        .claimed_at
        .duration_since(attempts[3].finished_at);
    assert!(paused >= jiff::SignedDuration::from_millis(200), "{paused}");
    worker.drain();
    worker.finished().await;
}
