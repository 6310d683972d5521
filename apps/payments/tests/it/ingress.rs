//! The ingress: what is answered, and that it is answered once.

use std::sync::Arc;

use consign_payments::{Answer, PayCall, PaymentService, Payments, PaymentsOptions};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::support::Fixture;

const TENANT: &str = "0190f3a2-7b1c-7000-8000-00000000000a";

fn request() -> Value {
    json!({
        "instruction_id": "0190f3a2-7b1c-7000-8000-000000000001",
        "tenant_id": TENANT,
        "participant_id": "bank-a",
        "rail_type": "PAYMENT",
        "amount_minor": 1250,
        "currency_code": "ZMW",
        "beneficiary_ref_hash": "9f2c",
        "idempotency_key": "k-1",
        "submitted_at_utc": "2026-11-16T03:00:00Z",
    })
}

async fn service() -> (Fixture, PaymentService) {
    let shop = Fixture::new().await;
    let payments = Arc::clone(&shop.store) as Arc<dyn Payments>;
    (
        shop,
        PaymentService::new(payments, PaymentsOptions::default()),
    )
}

async fn pay(service: &PaymentService, tenant_id: Option<Uuid>, body: &Value) -> Answer {
    let body = body.to_string();
    let call = PayCall {
        tenant_id,
        body: body.as_bytes(),
        headers: Map::new(),
    };
    service.pay(call).await
}

/// A repeated POST returns the first outbox_id.
#[tokio::test]
async fn a_payment_is_acknowledged_once_it_is_there() {
    let (_shop, service) = service().await;
    let first = pay(&service, None, &request()).await;
    assert_eq!((first.status, &first.headers[..]), (202, &[][..]));
    let body = &first.body;
    assert_eq!(body["ack"], true);
    assert_eq!(body["instruction_id"], request()["instruction_id"]);
    assert_eq!(
        (&body["outbox_state"], &body["sequence_id"]),
        (&json!("PENDING"), &json!(1))
    );
    assert!(
        body["payload_hash"]
            .as_str()
            .unwrap()
            .starts_with("sha256:")
    );

    let again = pay(&service, None, &request()).await;
    assert_eq!(again.status, 202);
    assert_eq!(again.headers, [("idempotency-replayed", "true".to_owned())]);
    assert_eq!(again.body, first.body);

    let outbox_id = body["outbox_id"].as_str().unwrap();
    let seen = service.look(None, outbox_id).await;
    assert_eq!(seen.status, 200);
    assert_eq!(seen.body["payload_hash"], body["payload_hash"]);
    assert_eq!(seen.body["state"], "PENDING");
    assert_eq!(seen.body["attempts"], json!([]));
    assert_eq!(seen.body.get("payload"), None, "its content is not shown");
}

#[tokio::test]
async fn refusals_have_their_codes() {
    let (_shop, service) = service().await;
    pay(&service, None, &request()).await;
    let with = |name: &str, value: Value| {
        let mut body = request();
        body[name] = value;
        body
    };
    let other = Some(Uuid::from_u128(9));
    let table = [
        (
            None,
            with("amount_minor", json!(0)),
            400,
            "SCHEMA_VALIDATION_FAILED",
        ),
        (None, json!([]), 400, "INVALID_REQUEST"),
        (None, with("surprise", json!(1)), 400, "INVALID_REQUEST"),
        (
            None,
            with("details", json!({"x": "y".repeat(70_000)})),
            413,
            "PAYLOAD_TOO_LARGE",
        ),
        (
            None,
            with("amount_minor", json!(999)),
            409,
            "IDEMPOTENCY_CONFLICT",
        ),
        (other, request(), 403, "TENANT_MISMATCH"),
    ];
    for (tenant_id, body, status, code) in table {
        let answer = pay(&service, tenant_id, &body).await;
        let reported = answer.body["error"].as_str().unwrap_or_default();
        assert_eq!((answer.status, reported), (status, code), "{}", answer.body);
        assert!(answer.body["message"].is_string());
    }
    let invalid = pay(&service, None, &with("amount_minor", json!(0))).await;
    assert_eq!(invalid.body["errors"][0]["field"], "amount_minor");
    let conflict = pay(&service, None, &with("rail_type", json!("REFUND"))).await;
    assert_eq!(conflict.body["field"], "rail_type");
    assert!(conflict.body["outbox_id"].is_string());
}

/// Another tenant's key is another key, and another tenant's payment does not exist.
#[tokio::test]
async fn tenants_do_not_see_each_other() {
    let (_shop, service) = service().await;
    let first = pay(&service, Some(TENANT.parse().unwrap()), &request()).await;
    let outbox_id = first.body["outbox_id"].as_str().unwrap();
    let stranger = Uuid::from_u128(9);
    let mut body = request();
    body["tenant_id"] = json!(stranger);
    let own = pay(&service, Some(stranger), &body).await;
    assert_eq!(own.status, 202);
    assert_ne!(own.body["outbox_id"], first.body["outbox_id"]);
    assert_eq!(service.look(Some(stranger), outbox_id).await.status, 404);
    assert_eq!(
        service
            .look(Some(TENANT.parse().unwrap()), outbox_id)
            .await
            .status,
        200
    );
    assert_eq!(service.look(None, "nonsense").await.status, 404);
}

/// The ingress promises nothing it could not write down.
#[tokio::test]
async fn a_store_that_is_gone_is_a_503() {
    let (shop, service) = service().await;
    shop.store.close().await.unwrap();
    let path = shop.path();
    std::fs::remove_dir_all(path).unwrap();
    let answer = pay(&service, None, &request()).await;
    assert_eq!(
        (answer.status, &answer.body["error"]),
        (503, &json!("ATTESTATION_DURABILITY_FAILED"))
    );
    assert!(
        answer
            .headers
            .iter()
            .any(|(name, _)| *name == "retry-after")
    );
}
