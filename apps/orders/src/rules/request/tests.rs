use super::*;

/// The whole order of the contract.
const FULL: &str = r#"{"order_id":"ord-20250824-0001","instrument":"USDJPY","side":"BUY","qty":0.10,
    "price":null,"time_in_force":"IOC","tags":["pdca","recheck"],
    "idempotency_key":"01JABCXYZ-ULID-5678","requested_at":"2025-08-24T00:00:00Z",
    "risk_constraints":{"max_dd":0.1,"max_consecutive_loss":3,"max_spread":0.002}}"#;

/// A good order with some members put in place of others.
fn body(members: &[(&str, &str)]) -> String {
    let good = [
        ("instrument", r#""USDJPY""#),
        ("side", r#""BUY""#),
        ("qty", "0.1"),
        ("idempotency_key", r#""key-00001""#),
    ];
    let kept = good
        .iter()
        .filter(|(name, _)| !members.iter().any(|(other, _)| other == name));
    let all = kept.chain(members.iter().filter(|(_, value)| !value.is_empty()));
    let members: Vec<String> = all
        .map(|(name, value)| format!("\"{name}\":{value}"))
        .collect();
    format!("{{{}}}", members.join(","))
}

fn parse(body: &str) -> Result<OrderRequest, InvalidRequest> {
    OrderRequest::parse(body.as_bytes(), &Rules::default())
}

fn bad_fields(body: &str) -> Vec<String> {
    let invalid = parse(body).expect_err(body);
    for problem in &invalid.problems {
        assert!(!problem.problem.is_empty() && !problem.accepted.is_empty());
    }
    let fields = invalid.problems.into_iter().map(|problem| problem.field);
    fields.collect()
}

#[test]
fn the_order_of_the_contract_is_accepted() {
    let request = parse(FULL).unwrap();
    assert_eq!(request.order_id.as_deref(), Some("ord-20250824-0001"));
    assert_eq!(request.instrument, "USDJPY");
    assert_eq!(request.side, Side::Buy);
    assert_eq!(request.qty.to_string(), "0.1");
    assert_eq!(request.price, None);
    assert_eq!(request.time_in_force, TimeInForce::Ioc);
    assert_eq!(request.tags, ["pdca", "recheck"]);
    assert_eq!(request.idempotency_key.as_str(), "01JABCXYZ-ULID-5678");
    let at = request.requested_at.unwrap();
    assert_eq!(at.to_string(), "2025-08-24T00:00:00Z");
    let risk = request.risk_constraints.unwrap();
    assert_eq!(risk.max_consecutive_loss, Some(3));
    assert_eq!(risk.max_spread, Some("0.002".parse().unwrap()));
    assert_eq!(OrderRequest::reread(FULL.as_bytes()).unwrap(), request);
}

#[test]
fn the_shortest_order_is_accepted_with_defaults() {
    let request = parse(&body(&[])).unwrap();
    assert_eq!(request.time_in_force, TimeInForce::Ioc);
    assert_eq!(request.price, None);
    assert_eq!(request.tags, Vec::<String>::new());
    assert_eq!((request.order_id, request.trace_id), (None, None));
    assert_eq!(
        (request.requested_at, request.risk_constraints),
        (None, None)
    );
}

#[test]
fn boundary_values_are_accepted() {
    let key_8 = format!("\"{}\"", "k".repeat(8));
    let key_64 = format!("\"{}\"", "円".repeat(64));
    let tags_8 = format!("[{}]", vec![format!("\"{}\"", "t".repeat(32)); 8].join(","));
    let trace_128 = format!("\"{}\"", "t".repeat(128));
    let table: &[(&str, &str)] = &[
        ("idempotency_key", &key_8),
        ("idempotency_key", &key_64),
        ("tags", &tags_8),
        ("tags", "[]"),
        ("trace_id", &trace_128),
        ("trace_id", "\"\""),
        ("side", r#""SELL""#),
        ("qty", "0.01"),
        ("qty", "1e4"),
        ("qty", "0.015"),
        ("price", "146.1234567"),
        ("price", "0.001"),
        ("time_in_force", r#""FOK""#),
        ("time_in_force", r#""GTC""#),
        ("instrument", r#""EURUSD""#),
        ("requested_at", r#""2025-08-24T00:00:00.123456789Z""#),
        ("requested_at", r#""2025-08-24T00:00:00+00:00""#),
        ("risk_constraints", "{}"),
        (
            "risk_constraints",
            r#"{"max_consecutive_loss": 3.0, "max_dd": 0}"#,
        ),
    ];
    for (name, value) in table {
        parse(&body(&[(name, value)])).unwrap_or_else(|error| panic!("{name} {value}: {error}"));
    }
}

/// Each value alone makes the order a bad one, by its own field and no other.
fn refused(name: &str, values: &[&str]) {
    for value in values {
        let bad = bad_fields(&body(&[(name, value)]));
        assert_eq!(bad, [name], "{name} {value}");
    }
}

#[test]
fn an_invalid_field_is_rejected() {
    let name_21 = format!("\"{}\"", "A".repeat(21));
    let tags_9 = format!("[{}]", ["\"t\""; 9].join(","));
    let text_129 = format!("\"{}\"", "t".repeat(129));
    refused("side", &[r#""HOLD""#, r#""buy""#, "1", "null", ""]);
    refused("qty", &["0", "-1", "\"1\"", "0.005", "null", "true", ""]);
    refused("qty", &["1e30", "1e-30", "1e999999"]);
    refused("price", &["0", "-0.0", "-1", "\"146\"", "0.0004"]);
    let names = [r#""usdjpy""#, r#""US""#, &name_21, r#""XAUUSD""#, "1", ""];
    refused("instrument", &names);
    let almost = [r#"" USDJPY""#, r#""USDJPY\n""#, "\"USD\u{ff2a}PY\""];
    refused("instrument", &almost);
    refused("time_in_force", &[r#""DAY""#, r#""ioc""#, "1"]);
    refused("tags", &[&tags_9, r#""a""#]);
    refused("trace_id", &[&text_129, r#""a\nb""#, "1"]);
    refused("order_id", &[&text_129, r#""""#, "1"]);
    refused("risk_constraints", &["7", "[]"]);
    refused("symbol", &[r#""USDJPY""#]);
    refused("Side", &[r#""BUY""#]);
}

#[test]
fn an_invalid_key_is_rejected() {
    let key_7 = format!("\"{}\"", "k".repeat(7));
    let key_65 = format!("\"{}\"", "k".repeat(65));
    refused(
        "idempotency_key",
        &[&key_7, &key_65, "12345678", "null", ""],
    );
}

#[test]
fn a_time_that_is_not_utc_is_rejected() {
    let times = [
        r#""2025-08-24T00:00:00""#,
        r#""2025-08-24T00:00:00+09:00""#,
        r#""2025-08-24 00:00:00Z""#,
        r#""2025-02-30T00:00:00Z""#,
        r#""2025-08-24T00:00:00.Z""#,
        r#""2025-08-24T00:00:00Z[UTC]""#,
        r#""2025-08-24T00:00Z""#,
        "1756000000",
    ];
    refused("requested_at", &times);
}

#[test]
fn invalid_nested_values_are_named_by_path() {
    let tag_33 = format!("[\"ok\",\"{}\"]", "t".repeat(33));
    let table = [
        ("tags", "[null]", "tags.0"),
        ("tags", tag_33.as_str(), "tags.1"),
        ("tags", "[1]", "tags.0"),
        (
            "risk_constraints",
            r#"{"max_dd":"1"}"#,
            "risk_constraints.max_dd",
        ),
        (
            "risk_constraints",
            r#"{"max_spread":-1}"#,
            "risk_constraints.max_spread",
        ),
        (
            "risk_constraints",
            r#"{"max_consecutive_loss":2.5}"#,
            "risk_constraints.max_consecutive_loss",
        ),
        (
            "risk_constraints",
            r#"{"max_gain":1}"#,
            "risk_constraints.max_gain",
        ),
    ];
    for (name, value, field) in table {
        assert_eq!(bad_fields(&body(&[(name, value)])), [field], "{value}");
    }
}

#[test]
fn every_invalid_field_is_listed_at_once() {
    let text = r#"{"instrument": "usdjpy", "side": "HOLD", "qty": 0, "price": 0,
        "time_in_force": "DAY", "tags": ["ok", 1, 2], "trace_id": 1, "idempotency_key": "short",
        "order_id": 7, "requested_at": "now", "risk_constraints": {"max_dd": "x", "x": 1},
        "colour": "red", "qty": 1}"#;
    let expected = [
        "order_id",
        "instrument",
        "side",
        "qty",
        "price",
        "time_in_force",
        "tags.1",
        "tags.2",
        "trace_id",
        "idempotency_key",
        "requested_at",
        "colour",
        "risk_constraints.max_dd",
        "risk_constraints.x",
        "qty",
    ];
    assert_eq!(bad_fields(text), expected);
    let invalid = parse(text).unwrap_err();
    assert_eq!(
        invalid.problems.last().unwrap().problem,
        "occurs more than once"
    );
    assert_eq!(invalid.idempotency_key.as_deref(), Some("short"));
    // The error never contains values: it may be logged.
    for value in ["usdjpy", "HOLD", "DAY", "short", "red"] {
        assert!(!invalid.to_string().contains(value), "{invalid}");
    }
}

#[test]
fn duplicate_fields_are_rejected_even_with_equal_values() {
    for text in [
        body(&[("qty", "0.1,\"qty\":0.1")]),
        body(&[("qty", r#"0.1,"\u0071ty":0.1"#)]),
        body(&[("qty", "0.1,\"qty\":0.10")]),
    ] {
        assert_eq!(bad_fields(&text), ["qty"], "{text}");
    }
    let inner = body(&[("risk_constraints", r#"{"max_dd":1,"max_dd":1}"#)]);
    assert_eq!(bad_fields(&inner), ["risk_constraints.max_dd"]);
}

#[test]
fn an_error_is_not_longer_than_it_helps() {
    let fields: Vec<String> = (0..5_000).map(|index| format!("\"f{index}\":1")).collect();
    let bad = bad_fields(&format!("{{{}}}", fields.join(",")));
    assert_eq!(bad.len(), 49);
    assert_eq!(bad.last().unwrap(), "body");
}

#[test]
fn a_body_that_is_not_an_object_is_rejected() {
    let deep = format!("{}{}", "[".repeat(40), "]".repeat(40));
    for text in [
        "",
        "[]",
        "\"a\"",
        "null",
        "{",
        "{\"qty\": NaN}",
        &deep,
        &body(&[("tags", &deep)]),
    ] {
        assert_eq!(bad_fields(text), ["body"], "{text}");
    }
}

/// The least quantity may be more than a step, and counts after rounding.
#[test]
fn a_quantity_below_the_minimum_is_rejected() {
    let grid = crate::Instrument {
        qty_step: "0.01".parse().unwrap(),
        qty_min: "0.1".parse().unwrap(),
        price_tick: "0.001".parse().unwrap(),
    };
    let rules = Rules {
        instruments: Instruments::new([("USDJPY".to_owned(), grid)]).unwrap(),
        ..Rules::default()
    };
    for (qty, is_accepted) in [
        ("0.1", true),
        ("0.109", true),
        ("0.0999", false),
        ("0.05", false),
    ] {
        let parsed = OrderRequest::parse(body(&[("qty", qty)]).as_bytes(), &rules);
        assert_eq!(parsed.is_ok(), is_accepted, "{qty}");
    }
}

/// An instrument that was taken off the list does not lose accepted orders.
#[test]
fn accepted_orders_are_read_again_without_the_list() {
    let text = body(&[("instrument", r#""XAUUSD""#), ("qty", "0.001")]);
    assert_eq!(bad_fields(&text), ["instrument"]);
    let request = OrderRequest::reread(text.as_bytes()).unwrap();
    assert_eq!(request.instrument, "XAUUSD");
    assert!(OrderRequest::reread(body(&[("side", "1")]).as_bytes()).is_err());
}
