//! Orders sent within the request: a row without a message.

use consign_conformance::stage::{after, refused, s};
use consign_orders::{AcceptResult, LedgerEntry, LedgerStatus};
use serde_json::Value;

use super::LedgerHarness;
use super::fixture::{OrdersFixture, TTL, digest, ended, is_conflict, is_same, order, twisted};

pub(crate) async fn a_direct_order_has_no_message(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    let now = fixture.stage.now().await;
    let order = order("key-0001");
    let answer = fixture.ledger.open_direct(&order, s(5)).await;
    let answer = answer.expect("open_direct answers");
    let expected = LedgerEntry {
        client: order.client.clone(),
        key: order.key.clone(),
        request_digest: digest("key-0001"),
        result_digest: None,
        status: LedgerStatus::Accepted,
        first_seen_at: now,
        last_seen_at: now,
        expires_at: after(now, TTL),
        order_expires_at: None,
        response: None,
        http_status: 201,
        outbox_id: None,
        conflicts: 0,
        sent: None,
    };
    assert_eq!(answer, AcceptResult::New(expected.clone()));
    assert_eq!(fixture.entry(&order).await, expected);
    assert_eq!(fixture.message_count().await, 0);
    // Both ways of accepting share their keys.
    assert!(is_same(&fixture.accept_one(&order).await));
    let again = fixture.ledger.open_direct(&order, s(5)).await;
    assert!(is_same(&again.expect("open_direct answers")));
    let other = fixture.ledger.open_direct(&twisted(&order), s(5)).await;
    assert!(is_conflict(&other.expect("open_direct answers")));
    assert_eq!(fixture.entry(&order).await.conflicts, 1);
    assert_eq!(fixture.message_count().await, 0);
    for give_up_after in [s(0), s(2 * 86_400)] {
        let answer = fixture.ledger.open_direct(&order, give_up_after).await;
        refused(answer, "invalid_input");
    }
}

/// Succeeded and failed are final.
pub(crate) async fn a_direct_order_is_closed_once(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    for (of, status, http_status, word) in [
        ("key-0001", LedgerStatus::Succeeded, 200, "ok"),
        ("key-0002", LedgerStatus::Failed, 400, "error"),
    ] {
        let order = order(of);
        let opened = fixture.ledger.open_direct(&order, s(5)).await;
        let opened = opened.expect("open_direct answers").entry().clone();
        fixture.stage.advance(s(1)).await;
        let ended = ended(http_status, word);
        let closed = fixture.ledger.close_direct(&order, status, &ended).await;
        let expected = LedgerEntry {
            result_digest: Some(ended.result_digest.clone()),
            status,
            response: Some(ended.exec_result.clone()),
            http_status,
            ..opened
        };
        assert_eq!(closed.expect("close answers"), Some(expected.clone()));
        assert_eq!(fixture.entry(&order).await, expected, "byte by byte");
        for again in [LedgerStatus::Succeeded, LedgerStatus::Failed] {
            let late = super::fixture::ended(504, "late");
            let answer = fixture.ledger.close_direct(&order, again, &late).await;
            assert_eq!(answer.expect("close answers"), Some(expected.clone()));
        }
        fixture.stage.advance(s(3_600)).await;
        assert_eq!(fixture.entry(&order).await, expected, "nothing to give up");
    }
}

pub(crate) async fn a_direct_order_is_closed_only_under_its_own_digest(
    harness: &dyn LedgerHarness,
) {
    let fixture = OrdersFixture::new(harness).await;
    let order = order("key-0001");
    let ok = (LedgerStatus::Succeeded, ended(200, "ok"));
    let nobody = fixture.ledger.close_direct(&order, ok.0, &ok.1).await;
    assert_eq!(nobody.expect("close answers"), None, "a free key");
    let opened = fixture.ledger.open_direct(&order, s(5)).await;
    let opened = opened.expect("open_direct answers").entry().clone();
    let other = fixture
        .ledger
        .close_direct(&twisted(&order), ok.0, &ok.1)
        .await;
    assert_eq!(other.expect("close answers"), Some(opened.clone()));
    for (status, ended) in [
        (LedgerStatus::Accepted, ok.1.clone()),
        (ok.0, ended(99, "ok")),
    ] {
        let answer = fixture.ledger.close_direct(&order, status, &ended).await;
        refused(answer, "invalid_input");
    }
    assert_eq!(fixture.entry(&order).await, opened);
    // An order on its way through the outbox is not closed by hand.
    let queued = super::fixture::order("key-0002");
    fixture.enter(&queued).await;
    let before = fixture.entry(&queued).await;
    let answer = fixture.ledger.close_direct(&queued, ok.0, &ok.1).await;
    assert_eq!(answer.expect("close answers"), Some(before));
    let closed = fixture.ledger.close_direct(&order, ok.0, &ok.1).await;
    let closed = closed.expect("close answers").expect("a row");
    assert_eq!(closed.status, LedgerStatus::Succeeded);
}

/// In every operation: a read, a worker's check, a repeated acceptance.
pub(crate) async fn a_direct_order_without_a_result_is_given_up(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    let orders = ["key-0001", "key-0002", "key-0003", "key-0004"].map(order);
    for order in &orders {
        let opened = fixture.ledger.open_direct(order, s(5)).await;
        opened.expect("open_direct answers");
    }
    fixture.stage.advance(s(4)).await;
    assert_eq!(
        fixture.entry(&orders[0]).await.status,
        LedgerStatus::Accepted
    );
    fixture.stage.advance(s(1)).await;
    let [asked, verified, repeated, reopened] = &orders;
    let answers = [
        fixture.entry(asked).await,
        {
            let answer = fixture.ledger.verify(&verified.client, &verified.key).await;
            answer.expect("verify answers").expect("a row").entry
        },
        fixture.accept_one(repeated).await.entry().clone(),
        {
            let answer = fixture.ledger.open_direct(reopened, s(5)).await;
            answer.expect("open_direct answers").entry().clone()
        },
    ];
    for (order, answer) in orders.iter().zip(answers) {
        assert_eq!(answer.status, LedgerStatus::Failed, "{:?}", order.key);
        assert_eq!(answer.http_status, 504);
        let body = answer.response.clone().expect("an answer to replay");
        let body: Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!(body["status"], "error");
        assert_eq!(body["reason_code"], "BROKER_TIMEOUT");
        assert_eq!(body["order_id"], "ord-1");
        assert_eq!(body["idempotency_key"], order.key.as_str());
        assert_eq!(fixture.entry(order).await, answer, "and stays so");
    }
    assert_eq!(fixture.message_count().await, 0);
}

pub(crate) async fn a_result_after_giving_up_changes_nothing(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    let order = order("key-0001");
    let opened = fixture.ledger.open_direct(&order, s(5)).await;
    opened.expect("open_direct answers");
    fixture.stage.advance(s(5)).await;
    let ok = ended(200, "ok");
    let answer = fixture
        .ledger
        .close_direct(&order, LedgerStatus::Succeeded, &ok);
    let answer = answer.await.expect("close answers").expect("a row");
    assert_eq!(
        (answer.status, answer.http_status),
        (LedgerStatus::Failed, 504)
    );
    assert_eq!(fixture.entry(&order).await, answer);
}
