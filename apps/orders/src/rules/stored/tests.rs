use super::*;
use crate::Rules;

const BODY: &str = r#"{"instrument":"USDJPY","side":"SELL","qty":0.109,"price":146.12345,
    "idempotency_key":"key-00001","tags":["円"],"risk_constraints":{"max_dd":0.10}}"#;

fn stored() -> StoredOrder {
    let rules = Rules::default();
    let request = OrderRequest::parse(BODY.as_bytes(), &rules).unwrap();
    let now = "2026-01-02T03:04:05.678Z".parse().unwrap();
    let filled = ServerFields::new(&request, &rules, now, uuid::Uuid::from_u128(7));
    StoredOrder::new("desk-7".parse().unwrap(), &request, filled, BODY)
}

#[test]
fn fills_in_omitted_fields_and_rounds_amounts() {
    let order = stored().order().unwrap();
    let expected = r#"{"order_id":"ord-00000000000000000000000000000007","instrument":"USDJPY","side":"SELL","qty":0.1,"price":146.124,"time_in_force":"IOC","tags":["円"],"risk_constraints":{"max_dd":0.1,"max_spread":0.002},"trace_id":"trace-00000000000000000000000000000007","idempotency_key":"key-00001","requested_at":"2026-01-02T03:04:05.678Z"}"#;
    assert_eq!(order.to_json(), expected);
}

/// An order at the market has no price to round.
#[test]
fn a_market_order_keeps_no_price() {
    let body = r#"{"instrument":"USDJPY","side":"BUY","qty":1,"price":null,
        "idempotency_key":"key-00001","order_id":"o","trace_id":"t",
        "requested_at":"2025-08-24T00:00:00Z","risk_constraints":{"max_spread":0.5}}"#;
    let rules = Rules::default();
    let request = OrderRequest::parse(body.as_bytes(), &rules).unwrap();
    let filled = ServerFields::new(&request, &rules, Timestamp::MAX, uuid::Uuid::nil());
    assert_eq!(filled.price, None);
    assert_eq!(
        (filled.order_id.as_str(), filled.trace_id.as_str()),
        ("o", "t")
    );
    assert_eq!(filled.requested_at.to_string(), "2025-08-24T00:00:00Z");
    assert_eq!(filled.max_spread, Some("0.5".parse().unwrap()));
    // Nothing of it enters the digest.
    let again = OrderRequest::reread(body.as_bytes()).unwrap();
    assert_eq!(again.digest, request.digest);
}

/// A client's clock that is ahead would have every result end before it began.
#[test]
fn requested_at_is_never_after_arrival() {
    let body = |at: &str| {
        format!(
            r#"{{"instrument":"USDJPY","side":"BUY","qty":1,"idempotency_key":"key-00001",
                "requested_at":"{at}"}}"#
        )
    };
    let rules = Rules::default();
    let now: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
    for (said, kept) in [
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("2026-01-03T00:00:00Z", "2026-01-02T00:00:00Z"),
    ] {
        let request = OrderRequest::parse(body(said).as_bytes(), &rules).unwrap();
        let filled = ServerFields::new(&request, &rules, now, uuid::Uuid::nil());
        assert_eq!(filled.requested_at.to_string(), kept);
    }
}

/// The body keeps its key, its numbers and every blank.
#[test]
fn a_payload_is_read_back_as_it_was_written() {
    let stored = stored();
    let payload = stored.to_payload();
    assert_eq!(payload["body"], BODY);
    assert_eq!(payload["client"], "desk-7");
    assert_eq!(payload["idempotency_key"], "key-00001");
    assert_eq!(payload["request_digest"], stored.request_digest);
    assert_eq!(payload["order"]["qty"], "0.1");
    // As the database returns it.
    let text = payload.to_string();
    let payload: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(StoredOrder::parse(&payload).unwrap(), stored);
}

#[test]
fn the_rules_of_today_do_not_change_the_order_of_yesterday() {
    let payload = stored().to_payload();
    let stored = StoredOrder::parse(&payload).unwrap();
    // No rules are applied here: rounded values stay rounded.
    assert_eq!(stored.order().unwrap().qty.to_string(), "0.1");
}

/// A stored order that was damaged is not sent.
#[test]
fn a_damaged_payload_is_malformed() {
    let whole = stored().to_payload();
    for (pointer, value) in [
        ("", json!([])),
        ("", json!("text")),
        ("/client", json!(7)),
        ("/client", json!("a/b")),
        ("/client", json!(null)),
        ("/idempotency_key", json!("short")),
        ("/request_digest", json!(null)),
        ("/order", json!("text")),
        ("/order/order_id", json!(1)),
        ("/order/side", json!("HOLD")),
        ("/order/requested_at", json!("soon")),
        ("/order/qty", json!(0.1)),
        ("/order/qty", json!("NaN")),
        ("/order/price", json!("a")),
        ("/body", json!({"instrument": "USDJPY"})),
        ("/body", json!(null)),
    ] {
        let mut payload = whole.clone();
        *payload.pointer_mut(pointer).unwrap() = value;
        assert!(StoredOrder::parse(&payload).is_err(), "{pointer}");
    }
    for field in [
        "client",
        "idempotency_key",
        "request_digest",
        "order",
        "body",
    ] {
        let mut payload = whole.clone();
        payload.as_object_mut().unwrap().remove(field);
        let error = StoredOrder::parse(&payload).unwrap_err();
        assert!(error.what.contains(field), "{error}");
    }
}

/// The parts are well formed, but do not belong together.
#[test]
fn a_body_that_is_not_the_accepted_one_is_malformed() {
    type Change = fn(&mut StoredOrder);
    let table: &[(&str, Change)] = &[
        ("body cut", |s| s.body.truncate(40)),
        ("other qty", |s| s.body = s.body.replace("0.109", "0.108")),
        ("other digest", |s| s.request_digest = "sha256:0".into()),
        ("other key", |s| s.key = "key-00002".parse().unwrap()),
        ("other side", |s| s.filled.side = Side::Buy),
        ("other instrument", |s| {
            s.filled.instrument = "EURUSD".into()
        }),
        ("more than requested", |s| {
            s.filled.qty = "0.11".parse().unwrap()
        }),
        ("nothing", |s| s.filled.qty = Amount::ZERO),
        ("no limit", |s| s.filled.price = None),
        ("a worse limit", |s| {
            s.filled.price = Some("1".parse().unwrap())
        }),
    ];
    for (name, change) in table {
        let mut stored = stored();
        change(&mut stored);
        let error = stored.order().expect_err(name);
        assert!(!error.to_string().contains("0.109"), "{error}");
    }
    // What is not part of the order may differ: the digest leaves it out.
    let mut stored = stored();
    stored.body = stored.body.replace("0.109", "0.1090");
    assert!(stored.order().is_ok());
}

/// What a client gave itself is kept as it came, and prices are rounded in its favour only.
#[test]
fn values_given_by_the_client_are_kept() {
    type Change = fn(&mut ServerFields);
    let body = r#"{"instrument":"USDJPY","side":"BUY","qty":1,"price":146.12345,
        "idempotency_key":"key-00001","order_id":"o","trace_id":"t",
        "requested_at":"2025-08-24T00:00:00Z","risk_constraints":{"max_spread":0.5}}"#;
    let rules = Rules::default();
    let request = OrderRequest::parse(body.as_bytes(), &rules).unwrap();
    let filled = ServerFields::new(&request, &rules, Timestamp::MAX, uuid::Uuid::nil());
    let whole = StoredOrder::new("desk-7".parse().unwrap(), &request, filled, body);
    assert!(whole.order().is_ok());
    let table: &[(&str, Change)] = &[
        ("another name", |filled| filled.order_id = "p".into()),
        ("another trace", |filled| filled.trace_id = "u".into()),
        ("requested later", |filled| {
            filled.requested_at = Timestamp::MAX
        }),
        ("no spread", |filled| filled.max_spread = None),
        ("a higher limit", |filled| {
            filled.price = Some("146.124".parse().unwrap());
        }),
        ("no limit worth the name", |filled| {
            filled.price = Some(Amount::ZERO);
        }),
    ];
    for (name, change) in table {
        let mut stored = whole.clone();
        change(&mut stored.filled);
        stored.order().expect_err(name);
    }
}

#[test]
fn a_result_can_be_made_of_whatever_is_left() {
    let at: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
    let whole = Subject::of_payload(&stored().to_payload().into(), at);
    assert_eq!(whole, Subject::from(&stored().order().unwrap()));
    let nothing = Subject::of_payload(&json!(7).into(), at);
    assert_eq!((nothing.side, nothing.requested_at), (None, at));
    let result = crate::ExecResult::failed(
        nothing,
        "paper",
        crate::Reason::ValidationError,
        "unreadable",
        at,
    );
    assert_eq!(result.ended().http_status, 422);
}
