//! Erased orders: their content goes, their keys and ends stay.

use consign_conformance::stage::by;
use consign_kernel::{ErasureAnswer, ErasureTarget, MessageId, Outcome, StateKind};
use consign_orders::{FinalResult, LedgerStatus, NewOrder};
use serde_json::{Value, json};

use super::LedgerHarness;
use super::fixture::{OrdersFixture, ended, holding, is_conflict, is_same, order, report, twisted};

/// An end that names a person, with the code in its result as the service writes it.
fn secret(http_status: u16, code: Option<&str>) -> FinalResult {
    let result = json!({"status": "x", "reason_code": code, "broker": {"name": "Jane Doe"}});
    FinalResult {
        exec_result: result.to_string(),
        ..ended(http_status, "x")
    }
}

async fn erase(fixture: &OrdersFixture<'_>, id: MessageId) -> ErasureAnswer {
    let target = ErasureTarget::Ids(vec![id]);
    let erased = fixture.stage.store.erase(&target, &by()).await;
    erased.expect("erase answers")[0].answer
}

/// An order that ended like this, and its message.
async fn finished(
    fixture: &OrdersFixture<'_>,
    of: &str,
    outcome: Outcome,
    end: &FinalResult,
) -> (NewOrder, MessageId) {
    let order = order(of);
    let id = fixture.enter(&order).await;
    let code = match outcome {
        Outcome::Delivered => "EXECUTED",
        _ => "BROKER_REJECTED",
    };
    fixture.settle(id, outcome, code, end).await;
    (order, id)
}

async fn response(fixture: &OrdersFixture<'_>, order: &NewOrder) -> Value {
    let entry = fixture.entry(order).await;
    let response = entry.response.expect("it has ended");
    serde_json::from_str(&response).expect("JSON")
}

pub(crate) async fn an_erased_order_keeps_its_end_but_not_its_result(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    let ends = [
        ("key-0001", Outcome::Delivered, secret(200, None)),
        (
            "key-0002",
            Outcome::Dead,
            secret(400, Some("BROKER_REJECTED")),
        ),
        ("key-0003", Outcome::Dead, secret(500, Some("Jane Doe"))),
    ];
    let mut orders = Vec::new();
    for (of, outcome, end) in &ends {
        let (order, id) = finished(&fixture, of, *outcome, end).await;
        let before = fixture.entry(&order).await;
        assert_eq!(erase(&fixture, id).await, ErasureAnswer::Erased);
        assert_eq!(erase(&fixture, id).await, ErasureAnswer::AlreadyErased);
        let after = fixture.entry(&order).await;
        let expected = consign_orders::LedgerEntry {
            response: after.response.clone(),
            ..before
        };
        assert_eq!(after, expected, "nothing but its result changes");
        orders.push(order);
        let attempt = &fixture.stage.store.history(id).await.expect("history")[0];
        assert_eq!((&attempt.detail, &attempt.result), (&None, &None));
    }
    let left = |status: &str, of: &str, code: Option<&str>| {
        let mut left = json!({"status": status, "idempotency_key": of, "erased": true,
            "message": "the result of this order was erased"});
        if let Some(code) = code {
            left["error"] = code.into();
            left["reason_code"] = code.into();
        }
        left
    };
    assert_eq!(
        response(&fixture, &orders[0]).await,
        left("ok", "key-0001", None)
    );
    let rejected = left("error", "key-0002", Some("BROKER_REJECTED"));
    assert_eq!(response(&fixture, &orders[1]).await, rejected);
    assert_eq!(
        response(&fixture, &orders[2]).await,
        left("error", "key-0003", None),
        "what is no code goes too"
    );
}

pub(crate) async fn the_key_of_an_erased_order_is_repeated_as_before(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    let (order, id) = finished(&fixture, "key-0001", Outcome::Delivered, &secret(200, None)).await;
    fixture.accept_one(&twisted(&order)).await;
    assert_eq!(erase(&fixture, id).await, ErasureAnswer::Erased);
    let again = fixture.accept_one(&order).await;
    assert!(is_same(&again), "{again:?}");
    assert_eq!(again.entry().status, LedgerStatus::Succeeded);
    assert_eq!(again.entry().http_status, 200);
    let conflict = fixture.accept_one(&twisted(&order)).await;
    assert!(is_conflict(&conflict), "{conflict:?}");
    assert_eq!(conflict.entry().conflicts, 2);
    assert_eq!(fixture.message_count().await, 1);
    // And leaves the same way.
    fixture.stage.advance(super::fixture::TTL).await;
    let purged = fixture.ledger.purge(10, 3, false, &by()).await;
    assert_eq!(purged.expect("purge answers").succeeded, 1);
}

pub(crate) async fn an_order_that_is_not_final_is_not_erased(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::with(harness, holding()).await;
    let held = fixture.in_doubt(&order("key-0001")).await;
    let state = StateKind::Held;
    assert_eq!(
        erase(&fixture, held).await,
        ErasureAnswer::NotFinal { state }
    );
    let ready = fixture.enter(&order("key-0002")).await;
    let state = StateKind::Ready;
    assert_eq!(
        erase(&fixture, ready).await,
        ErasureAnswer::NotFinal { state }
    );
    let lease = fixture.claim(ready).await;
    let done = report(ready, Outcome::Delivered, "EXECUTED", &secret(200, None));
    let settled = fixture.stage.settle(&lease, &[done]).await;
    consign_conformance::stage::settled(settled);
    let entry = fixture.entry(&order("key-0002")).await;
    assert!(entry.response.expect("a result").contains("Jane Doe"));
}

pub(crate) async fn an_erased_order_is_not_requeued(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    let end = secret(400, Some("BROKER_REJECTED"));
    let (order, id) = finished(&fixture, "key-0001", Outcome::Dead, &end).await;
    assert_eq!(erase(&fixture, id).await, ErasureAnswer::Erased);
    let moved = fixture.stage.store.requeue(&[id], &by()).await;
    assert_eq!(
        moved.expect("requeue answers")[0].answer,
        consign_kernel::Move::Erased
    );
    assert_eq!(fixture.entry(&order).await.status, LedgerStatus::Failed);
}
