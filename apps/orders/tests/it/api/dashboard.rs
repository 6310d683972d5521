//! What the dashboard shows of an order beside its message.

use axum::{body::Body, http::Request};
use consign_kernel::{Claim, MessageId, Outcome, Report};
use consign_orders::OrdersOptions;
use consign_server::testing::{Browser, DashboardFixture, PageAnswer, name, request, set};
use serde_json::json;

use super::{Bench, Ledger};

type Fixture = DashboardFixture<std::sync::Arc<dyn Ledger>>;

#[tokio::test]
async fn an_order_is_shown_from_the_ledger_on_sqlite() {
    an_order_is_shown_from_the_ledger(super::sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_is_shown_from_the_ledger_on_postgresql() {
    let (_database, bench) = super::postgres(&OrdersOptions::default()).await;
    an_order_is_shown_from_the_ledger(bench).await;
}

async fn page(fixture: &Fixture, id: i64) -> PageAnswer {
    let path = format!("/ui/messages/{id}");
    fixture.get(&mut Browser::default(), &path).await
}

#[track_caller]
fn hides(page: &PageAnswer, words: &[&str]) {
    for word in words {
        assert!(!page.text.contains(word), "{word} shows in {}", page.text);
    }
}

async fn an_order_is_shown_from_the_ledger(bench: Bench) {
    let body = json!({
        "instrument": "USDJPY", "side": "BUY", "qty": 0.731, "idempotency_key": "order-0001",
        "order_id": "my-order-7",
    });
    let place = || {
        let mut placing = request(axum::http::Method::POST, "/do/order", Some(body.clone()));
        set(&mut placing, &[("idempotency-key", "order-0001")]);
        placing
    };
    let placed = bench.call(place()).await;
    placed.is(201);
    let id = placed.json["outbox_id"].as_i64().unwrap();
    let fixture = DashboardFixture::open(bench).await;
    let shown = page(&fixture, id).await;
    shown
        .says(200, "Order in the ledger")
        .says(200, "<dd class=\"long\">accepted</dd>")
        .says(200, "<dd class=\"long\">order-0001</dd>")
        .says(200, "my-order-7")
        .says(200, "Key expires at");
    hides(&shown, &["USDJPY", "0.731", "Broker&#39;s reference"]);
    let result = json!({
        "status": "ok", "order_id": "my-order-7", "instrument": "USDJPY", "side": "BUY",
        "requested_at": "2026-11-16T03:00:00Z", "completed_at": "2026-11-16T03:00:00Z",
        "trace_id": "t-1", "idempotency_key": "order-0001", "avg_price": 146.5,
        "fills": [{"px": 146.5, "qty": 0.731, "ts": "2026-11-16T03:00:00Z"}],
        "executed_qty": 0.731, "cost": null, "slippage": null, "reason_code": null,
        "broker": {"name": "paper", "order_ref": "B<17>"}, "warnings": ["slow"],
        "message": "Not at 146.5",
        "latency_ms": {"queue": 0, "broker_rtt": 0, "total": 0},
    });
    let store = &fixture.bench.store;
    let claim = Claim::new(name(consign_orders::QUEUE), "w1", 1);
    let lease = store.claim(&claim).await.unwrap().unwrap();
    let ended = json!({
        "http_status": 200, "result_digest": "sha256:00", "exec_result": result.to_string(),
    });
    let report = Report {
        code: Some("EXECUTED".into()),
        result: Some(ended),
        ..Report::new(MessageId(id), Outcome::Delivered)
    };
    store.settle(lease.token, &[report]).await.unwrap();
    let shown = page(&fixture, id).await;
    shown
        .says(200, "<dd class=\"long\">succeeded</dd>")
        .says(200, "<dd class=\"long\">B&#60;17&#62;</dd>")
        .says(200, "ok, 1 fill")
        .says(200, &format!("data-topic=\"message:{id}\""));
    // What may repeat the order shows with it; then nothing comes that would mask it again.
    let masked = ["slow", "Not at 146.5", "Request digest", "http_status"];
    hides(&shown, &masked);
    hides(&shown, &["146.5", "0.731"]);
    let mut browser = Browser::default();
    let form = fixture
        .get(&mut browser, &format!("/ui/messages/{id}"))
        .await;
    let action = format!("/ui/messages/{id}/reveal");
    let fields = [("reason", "a complaint")];
    let revealed = fixture.send(&mut browser, &form, &action, &fields).await;
    for word in masked {
        revealed.says(200, word);
    }
    hides(&revealed, &["data-topic"]);
    an_erased_order_shows_as_erased(&fixture, id, place()).await;
}

async fn an_erased_order_shows_as_erased(fixture: &Fixture, id: i64, again: Request<Body>) {
    let mut browser = Browser::default();
    let form = fixture
        .get(&mut browser, &format!("/ui/messages/{id}"))
        .await;
    let action = format!("/ui/messages/{id}/erase");
    let fields = [("reason", "request 12")];
    let erased = fixture.send(&mut browser, &form, &action, &fields).await;
    fixture
        .get(&mut browser, erased.header("location"))
        .await
        .says(200, "Erased: its content is gone.");
    let shown = page(fixture, id).await;
    shown
        .says(200, "request 12")
        .says(200, "<dd class=\"long\">succeeded</dd>");
    hides(&shown, &["my-order-7", "B&#60;17&#62;", "Reason to erase"]);
    let left = json!({
        "status": "ok", "idempotency_key": "order-0001", "erased": true,
        "message": "the result of this order was erased",
    });
    let again = fixture.bench.call(again).await;
    again.is(200);
    assert_eq!(again.json, left);
    let known = fixture.bench.get("/do/order/order-0001").await;
    known.is(200);
    assert_eq!(known.json["exec_result"], left);
    assert_eq!(known.json["status"], "succeeded");
}
