//! What is refused before anything is written.

use consign_orders::PlaceCall;
use serde_json::Map;

use crate::support::{Bench, client, header, json, order, quick};

/// The header first, then that both keys agree, then every field.
#[tokio::test]
async fn checks_run_in_order_and_before_any_write() {
    let bench = Bench::new(quick()).await;
    let good = order("key-0005", &[]);
    let bad = good.replace("BUY", "HOLD").replace("0.10", "-1");
    let table = [
        (None, good.as_str(), 400, "IDEMPOTENCY_KEY_MISSING"),
        (None, "not JSON", 400, "IDEMPOTENCY_KEY_MISSING"),
        (Some("key-0006"), &good, 422, "IDEMPOTENCY_MISMATCH"),
        (Some("key-0006"), &bad, 422, "IDEMPOTENCY_MISMATCH"),
        (Some("KEY-0005"), &good, 422, "IDEMPOTENCY_MISMATCH"),
        (Some("key-0005 "), &good, 422, "IDEMPOTENCY_MISMATCH"),
        (Some("key-0005"), &bad, 422, "VALIDATION_ERROR"),
        (Some("key-0005"), "not JSON", 422, "VALIDATION_ERROR"),
        (Some("key-0005"), "", 422, "VALIDATION_ERROR"),
        (Some("key-0005"), "[]", 422, "VALIDATION_ERROR"),
    ];
    for (header_key, body, status, error) in table {
        let call = PlaceCall {
            client: &client(),
            header_key,
            body: body.as_bytes(),
            wait: None,
            headers: Map::new(),
        };
        let answer = bench.service.place(call).await;
        let answer_body = json(&answer);
        assert_eq!(
            (answer.status, answer_body["error"].as_str()),
            (status, Some(error)),
            "{body}"
        );
        assert!(answer_body["message"].is_string(), "{answer_body}");
    }
    assert_eq!(bench.count("idempo_ledger").await, 0);
    assert_eq!(bench.count("message").await, 0);
    assert!(bench.ledger.accepts().is_empty());
}

#[tokio::test]
async fn every_invalid_field_is_listed() {
    let bench = Bench::new(quick()).await;
    let body = order("key-0006", &[])
        .replace("BUY", "HOLD")
        .replace("0.10", "-1");
    let answer = bench.post("key-0006", &body).await;
    let answer_body = json(&answer);
    let named = answer_body["fields"].as_array().unwrap();
    let named: Vec<&str> = named
        .iter()
        .map(|bad| bad["field"].as_str().unwrap())
        .collect();
    assert_eq!(named, ["side", "qty"], "{answer_body}");
}

#[tokio::test]
async fn a_ledger_that_is_not_there_is_no_answer_about_the_order() {
    let bench = Bench::new(quick()).await;
    bench.ledger.fail("accept", 1);
    let answer = bench.place("key-0001", &[]).await;
    assert_eq!(answer.status, 503, "{answer:?}");
    assert_eq!(header(&answer, "retry-after"), Some("1"));
    assert_eq!(
        bench.place("key-0001", &[]).await.status,
        201,
        "the same key is good"
    );
    bench.ledger.fail("entry", 1);
    assert_eq!(bench.service.look(&client(), "key-0001").await.status, 503);
}

#[tokio::test]
async fn an_unplaced_order_is_unknown() {
    let bench = Bench::new(quick()).await;
    bench.place("key-0001", &[]).await;
    let other = "desk-8".parse().unwrap();
    for (client, key) in [
        (&client(), "key-0002"),
        (&client(), "short"),
        (&other, "key-0001"),
    ] {
        let answer = bench.service.look(client, key).await;
        assert_eq!(answer.status, 404, "{key}");
        assert_eq!(json(&answer)["error"], "ORDER_UNKNOWN");
    }
}
