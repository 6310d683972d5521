//! What the dashboard shows of a payment beside its message.

use consign_server::testing::{Browser, DashboardFixture, PageAnswer};
use serde_json::json;

use super::{Bench, Payments, pay, payment};

type Fixture = DashboardFixture<std::sync::Arc<dyn Payments>>;

#[tokio::test]
async fn a_payment_is_shown_with_its_reference_and_its_successors_on_sqlite() {
    a_payment_is_shown_with_its_reference_and_its_successors(super::sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_is_shown_with_its_reference_and_its_successors_on_postgresql() {
    let (_database, bench) = super::postgres().await;
    a_payment_is_shown_with_its_reference_and_its_successors(bench).await;
}

async fn page(fixture: &Fixture, id: i64) -> PageAnswer {
    let path = format!("/ui/messages/{id}");
    fixture.get(&mut Browser::default(), &path).await
}

async fn a_payment_is_shown_with_its_reference_and_its_successors(bench: Bench) {
    let first = pay(&bench, 1).await;
    let mut again = payment(1);
    again["idempotency_key"] = json!("key-again");
    let second = bench.post("/v1/payments", again).await;
    second.is(202);
    let claim = json!({"worker_id": "w1", "lease_seconds": 60});
    let lease = bench.post("/v1/payments/claims", claim).await;
    lease.is(200);
    let token = lease.json["lease_token"].as_str().unwrap();
    let done = json!({"worker_id": "w1", "completions": [
        {"outbox_id": first, "state": "DISPATCHED", "rail_reference": "RAIL-99"},
    ]});
    let path = format!("/v1/payments/leases/{token}/complete");
    bench.post(&path, done.clone()).await.is(200);
    bench.post(&path, done).await.is(200);
    // A repeated completion is one delivery.
    let counted = bench.state.take_done();
    let of_payments: Vec<_> = counted
        .iter()
        .filter(|it| it.queue.as_str() == "payments")
        .map(|it| it.done.results())
        .collect();
    assert_eq!(of_payments, [1], "{counted:?}");
    let id = async |outbox_id: &str| {
        let listed = bench.get(&format!("/v1/messages?key={outbox_id}")).await;
        listed.json["messages"][0]["id"].as_i64().unwrap()
    };
    let second = second.json["outbox_id"].as_str().unwrap().to_owned();
    let (one, two) = (id(&first).await, id(&second).await);
    let fixture = DashboardFixture::open(bench).await;
    let shown = page(&fixture, one).await;
    shown.says(200, "Reason to erase");
    shown
        .says(200, "<dd class=\"long\">RAIL-99</dd>")
        .says(200, "<dd class=\"long\">DISPATCHED</dd>")
        .says(200, "Other payments of this instruction")
        .says(
            200,
            &format!("<a href=\"/ui/messages/{two}\">message {two}, "),
        );
    let shown = page(&fixture, two).await;
    shown.says(200, "none yet").says(
        200,
        &format!("<a href=\"/ui/messages/{one}\">message {one}, DISPATCHED"),
    );
    let path = format!("/v1/messages/{one}/erase");
    let erased = fixture
        .bench
        .post(&path, json!({"reason": "request 12"}))
        .await;
    erased.is(200);
    let shown = page(&fixture, one).await;
    shown
        .says(200, "<dd class=\"long\">RAIL-99</dd>")
        .says(200, "<dt>Erased</dt>")
        .says(200, "request 12");
    let looked = fixture.bench.get(&format!("/v1/payments/{first}")).await;
    looked.is(200);
    assert!(looked.json["payload_hash"].is_null(), "{}", looked.json);
    assert!(looked.json["erased_at"].is_string(), "{}", looked.json);
    let reference = &looked.json["attempts"][0]["rail_reference"];
    assert_eq!(reference, "RAIL-99");
}

#[tokio::test]
async fn a_payment_is_shown_beside_its_message() {
    let bench = super::sqlite().await;
    let outbox_id = pay(&bench, 1).await;
    let fixture = DashboardFixture::open(bench).await;
    let mut browser = Browser::default();
    let found = fixture
        .get(&mut browser, &format!("/ui/messages?q={outbox_id}"))
        .await;
    let (_, rest) = found.text.split_once("href=\"/ui/messages/").unwrap();
    let id = rest.split('"').next().unwrap();
    let page = fixture
        .get(&mut browser, &format!("/ui/messages/{id}"))
        .await;
    page.says(200, &format!("Payment {outbox_id}"))
        .says(200, "Sequence number");
    assert!(
        !page.text.contains("amount"),
        "what it carries stays hidden: {}",
        page.text
    );
}
