//! What is refused before anything is written.

use serde_json::{Value, json};

use super::bench::{Bench, on_one, order, post};
use crate::{http, service::Service};

async fn raw(service: &Service, headers: &str, body: &str) -> http::Answer {
    let head = format!(
        "POST /do/order HTTP/1.1\r\ncontent-type: application/json\r\n{headers}content-length: {}\r\n",
        body.len()
    );
    http::send(service.address(), &head, body).await.unwrap()
}

async fn is_untouched(bench: &Bench) {
    let mut sql = bench.sql().await;
    assert_eq!(sql.number("SELECT count(*) FROM idempo_ledger").await, 0);
    assert_eq!(sql.number("SELECT count(*) FROM message").await, 0);
    assert_eq!(bench.broker.send_count(), 0);
}

#[test]
fn the_key_is_checked_before_anything_is_written() {
    on_one(async |bench| {
        let service = bench.serve().await;
        let missing = raw(&service, "", &order("key-0005", &[])).await;
        assert_eq!(missing.status, 400, "{missing:?}");
        assert_eq!(missing.json()["error"], "IDEMPOTENCY_KEY_MISSING");
        for header in ["key-0006", "KEY-0005", "key-0005x"] {
            let other = post(&service, header, &order("key-0005", &[])).await;
            assert_eq!(other.status, 422, "{header}: {other:?}");
            assert_eq!(other.json()["error"], "IDEMPOTENCY_MISMATCH");
        }
        let twice = "idempotency-key: key-0005\r\nidempotency-key: key-0006\r\n";
        let twice = raw(&service, twice, &order("key-0005", &[])).await;
        assert!((400..=422).contains(&twice.status), "{twice:?}");
        for length in [7, 65] {
            let key = "k".repeat(length);
            let wrong = post(&service, &key, &order(&key, &[])).await;
            assert_eq!(wrong.status, 422, "{length}: {wrong:?}");
            assert_eq!(wrong.json()["error"], "VALIDATION_ERROR");
        }
        is_untouched(&bench).await;
        for length in [8, 64] {
            let key = "k".repeat(length);
            let right = post(&service, &key, &order(&key, &[])).await;
            assert_eq!(right.status, 201, "{length}: {right:?}");
        }
        service.stop().await;
    });
}

/// Bodies that are no orders, and the field each is refused for.
fn wrong_bodies() -> Vec<(String, &'static str)> {
    let order =
        json!({"instrument": "USDJPY", "side": "BUY", "qty": 0.1, "idempotency_key": "key-0006"});
    let with = |field: &'static str, value: Value| {
        let mut changed = order.clone();
        changed[field] = value;
        (changed.to_string(), field)
    };
    let without = |field: &'static str| {
        let mut changed = order.clone();
        changed.as_object_mut().unwrap().remove(field);
        (changed.to_string(), field)
    };
    let text = order.to_string();
    vec![
        with("side", json!("HOLD")),
        with("side", json!("buy")),
        with("qty", json!(0)),
        with("qty", json!(-1)),
        with("qty", json!("1")),
        with("qty", json!(0.005)),
        with("qty", Value::Null),
        with("instrument", json!("usdjpy")),
        with("instrument", json!("US")),
        with("instrument", json!("A".repeat(21))),
        with("instrument", json!("AUDNZD")),
        with("time_in_force", json!("DAY")),
        with("tags", json!(["t", "t", "t", "t", "t", "t", "t", "t", "t"])),
        with("tags", json!(["t".repeat(33)])),
        with("tags", json!([1])),
        with("trace_id", json!("t".repeat(129))),
        with("price", json!(0)),
        with("price", json!(-1.5)),
        with("colour", json!("red")),
        with("risk_constraints", json!({"max_loss": 1})),
        with("requested_at", json!("yesterday")),
        without("instrument"),
        without("side"),
        without("qty"),
        (text.replacen('{', r#"{"side":"SELL","#, 1), "side"),
        (text.replace("0.1", "NaN"), ""),
        (text.replace("0.1", "1e400"), "qty"),
        (format!("{text} {text}"), ""),
        (String::new(), ""),
        ("[]".into(), ""),
    ]
}

#[test]
fn an_invalid_order_is_rejected_with_every_invalid_field() {
    on_one(async |bench| {
        let service = bench.serve().await;
        for (body, field) in wrong_bodies() {
            let answer = post(&service, "key-0006", &body).await;
            assert_eq!(answer.status, 422, "{body}: {answer:?}");
            let said = answer.json();
            assert_eq!(said["error"], "VALIDATION_ERROR", "{body}: {said}");
            assert!(said.to_string().contains(field), "{body}: {said}");
        }
        let many =
            json!({"instrument": "US", "side": "HOLD", "qty": 0, "idempotency_key": "key-0006"});
        let said = post(&service, "key-0006", &many.to_string()).await.json();
        for field in ["instrument", "side", "qty"] {
            assert!(said.to_string().contains(field), "{field}: {said}");
        }
        is_untouched(&bench).await;
        service.stop().await;
    });
}
