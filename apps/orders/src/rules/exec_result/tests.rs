use super::*;
use crate::{OrderRequest, Rules, ServerFields};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn amount(text: &str) -> Amount {
    text.parse().unwrap()
}

fn order(time_in_force: &str) -> Order {
    let body = format!(
        r#"{{"order_id":"ord-1","instrument":"USDJPY","side":"BUY","qty":0.1,
            "time_in_force":"{time_in_force}","idempotency_key":"key-00001",
            "requested_at":"2025-08-24T00:00:00Z","trace_id":"trace-1"}}"#
    );
    let rules = Rules::default();
    let request = OrderRequest::parse(body.as_bytes(), &rules).unwrap();
    let filled = ServerFields::new(&request, &rules, Timestamp::MAX, uuid::Uuid::nil());
    Order::new(request, filled)
}

fn fill(px: &str, qty: &str) -> Fill {
    Fill {
        px: amount(px),
        qty: amount(qty),
        ts: at("2025-08-24T00:00:01Z"),
    }
}

fn executed(fills: &[(&str, &str)], executed_qty: &str) -> ExecResult {
    let failed = ExecResult::failed(
        Subject::from(&order("IOC")),
        "paper",
        Reason::InternalError,
        "",
        at("2025-08-24T00:00:01Z"),
    );
    ExecResult {
        status: ExecStatus::Ok,
        error: None,
        message: None,
        fills: fills.iter().map(|(px, qty)| fill(px, qty)).collect(),
        executed_qty: amount(executed_qty),
        reason_code: None,
        ..failed
    }
}

fn faults(result: &ExecResult, time_in_force: &str) -> Vec<Fault> {
    result.faults(&order(time_in_force), Some(amount("0.01")))
}

#[test]
fn fills_must_explain_what_was_executed() {
    let sum = |filled, executed_qty| Fault::Sum {
        filled: amount(filled),
        executed_qty: amount(executed_qty),
    };
    type Case<'a> = (&'a [(&'a str, &'a str)], &'a str, Vec<Fault>);
    let table: &[Case<'_>] = &[
        (&[("146.123", "0.06"), ("146.129", "0.04")], "0.1", vec![]),
        (&[("146.1", "0.1")], "0.1", vec![]),
        // A part of an order that is not fill-or-kill is a result.
        (&[("146.1", "0.04")], "0.04", vec![]),
        // Less than a step apart, as the contract allows; a step is too much.
        (&[("146.1", "0.0999")], "0.1", vec![]),
        (&[("146.1", "0.09")], "0.1", vec![sum("0.09", "0.1")]),
        (&[("146.1", "0.05")], "0.1", vec![sum("0.05", "0.1")]),
        (
            &[],
            "0.1",
            vec![Fault::NoFills {
                executed_qty: amount("0.1"),
            }],
        ),
        (&[], "0", vec![Fault::NotExecuted]),
        (&[("0", "0.1")], "0.1", vec![Fault::EmptyFill { index: 0 }]),
        (
            &[("146.1", "0.1"), ("146.1", "0")],
            "0.1",
            vec![Fault::EmptyFill { index: 1 }],
        ),
        (
            &[("146.1", "0.2"), ("146.1", "-0.1")],
            "0.1",
            vec![Fault::EmptyFill { index: 1 }],
        ),
        (
            &[("146.1", "0.2")],
            "0.2",
            vec![Fault::Overfilled {
                executed_qty: amount("0.2"),
                qty: amount("0.1"),
            }],
        ),
        (
            &[("1", "99999999999999"), ("1", "99999999999999")],
            "0.1",
            vec![Fault::TooLarge],
        ),
    ];
    for (fills, executed_qty, expected) in table {
        let result = executed(fills, executed_qty);
        assert_eq!(
            &faults(&result, "IOC"),
            expected,
            "{fills:?} {executed_qty}"
        );
    }
}

#[test]
fn without_a_step_fills_must_match() {
    let result = executed(&[("146.1", "0.0999")], "0.1");
    assert_eq!(result.faults(&order("IOC"), None).len(), 1);
    let result = executed(&[("146.1", "0.1")], "0.1");
    assert_eq!(result.faults(&order("IOC"), None), []);
}

#[test]
fn a_part_of_a_fill_or_kill_order_is_an_error() {
    let whole = executed(&[("146.1", "0.1")], "0.1");
    assert_eq!(faults(&whole, "FOK"), []);
    let part = executed(&[("146.1", "0.04")], "0.04");
    let found = faults(&part, "FOK");
    let expected = Fault::PartialFillOrKill {
        executed_qty: amount("0.04"),
        qty: amount("0.1"),
    };
    assert_eq!(found, [expected]);
    assert_eq!(found[0].reason(), Reason::BrokerRejected);
    for time_in_force in ["IOC", "GTC"] {
        assert_eq!(faults(&part, time_in_force), [], "{time_in_force}");
    }
}

#[test]
fn an_error_with_fills_is_rejected() {
    let order = order("IOC");
    let subject = Subject::from(&order);
    let mut result = ExecResult::failed(
        subject,
        "paper",
        Reason::BrokerTimeout,
        "late",
        order.requested_at,
    );
    assert_eq!(faults(&result, "IOC"), []);
    result.executed_qty = amount("0.04");
    let expected = Fault::ErrorWithFills {
        executed_qty: amount("0.04"),
    };
    assert_eq!(faults(&result, "IOC"), [expected]);
}

#[test]
fn a_result_is_about_the_order_that_was_sent_and_not_over_before_it() {
    type Change = fn(&mut ExecResult);
    let other = |field| Fault::OtherOrder { field };
    let table: &[(Change, Fault)] = &[
        (|r| r.order_id = "ord-2".into(), other("order_id")),
        (|r| r.instrument = "EURUSD".into(), other("instrument")),
        (|r| r.side = Some(Side::Sell), other("side")),
        (|r| r.side = None, other("side")),
        (|r| r.completed_at = at("2025-08-23T23:58:59Z"), Fault::Time),
    ];
    for (change, fault) in table {
        let mut result = executed(&[("146.1", "0.1")], "0.1");
        change(&mut result);
        assert_eq!(faults(&result, "IOC"), std::slice::from_ref(fault));
    }
    let mut result = executed(&[("146.1", "0.1")], "0.1");
    result.completed_at = result.requested_at;
    assert_eq!(faults(&result, "IOC"), []);
}

/// Nothing executed is final, except for a good-till-cancelled order.
#[test]
fn nothing_executed_is_final_except_for_gtc_orders() {
    let nothing = executed(&[], "0");
    for (time_in_force, fault, reason) in [
        ("IOC", Fault::NotExecuted, Reason::BrokerRejected),
        ("FOK", Fault::NotExecuted, Reason::BrokerRejected),
        ("GTC", Fault::NotYetExecuted, Reason::InternalError),
    ] {
        let found = faults(&nothing, time_in_force);
        assert_eq!(found, std::slice::from_ref(&fault), "{time_in_force}");
        assert_eq!(fault.reason(), reason);
    }
}

/// A broker's clock that is behind by seconds is no reason to give up an executed order.
#[test]
fn clocks_may_differ_a_little() {
    let mut result = executed(&[("146.1", "0.1")], "0.1");
    result.completed_at = at("2025-08-23T23:59:59Z");
    assert_eq!(faults(&result, "IOC"), []);
    let kept = result.into_stored(&order("IOC"), &Masker::default());
    assert_eq!(kept.completed_at, kept.requested_at);
    assert_eq!(kept.warnings, ["completed_at was 2025-08-23T23:59:59Z"]);
}

/// A broker's message is stored in the ledger and shown to the client.
#[test]
fn a_stored_result_contains_no_secret() {
    let mut result = executed(&[("146.1", "0.1")], "0.1");
    result.trace_id = "another\0".into();
    result.idempotency_key = Some("another".into());
    result.message = Some("signed with hunter22".into());
    result.broker.name = "b\0b".into();
    result.broker.order_ref = Some("x".repeat(300));
    result.warnings = vec!["key-00001 password=abc\0".into(); 100];
    let digest = result.digest();
    let kept = result.into_stored(&order("IOC"), &Masker::new(["hunter22".to_owned()]));
    assert_eq!(kept.digest(), digest);
    assert_eq!(kept.trace_id, "trace-1");
    assert_eq!(kept.idempotency_key.as_deref(), Some("key-00001"));
    assert_eq!(kept.message.as_deref(), Some("signed with [REDACTED]"));
    assert_eq!(kept.broker.name, "b b");
    assert_eq!(kept.broker.order_ref.unwrap().len(), 256);
    assert_eq!(kept.warnings, vec!["[REDACTED] password=[REDACTED]"; 16]);
}

/// The sample of the contract prints another average than its fills have. It was
/// executed all the same.
#[test]
fn a_wrong_average_adds_a_warning() {
    let fills = [("146.123", "0.06"), ("146.129", "0.04")];
    let mut result = executed(&fills, "0.1");
    assert_eq!(average_price(&result.fills), Some(amount("146.1254")));
    assert_eq!(result.remarks(), Vec::<String>::new());
    result.avg_price = Some(amount("146.1254"));
    assert_eq!(result.remarks(), Vec::<String>::new());
    result.avg_price = Some(amount("146.1252"));
    let told = "avg_price is 146.1252, the average of the fills is 146.1254";
    assert_eq!(result.remarks(), [told]);
    assert_eq!(faults(&result, "IOC"), []);
}

#[test]
fn averages_that_do_not_end_are_rounded() {
    let thirds = [fill("1", "1"), fill("1", "1"), fill("2", "1")];
    assert_eq!(average_price(&thirds), Some(amount("1.33333333")));
    assert_eq!(average_price(&[]), None);
    assert_eq!(average_price(&[fill("1", "0")]), None);
}

/// Every field that must be there is there, amounts as they are, in the order of the contract.
#[test]
fn results_are_written_and_read_alike() {
    let mut result = executed(&[("146.123", "0.06"), ("146.129", "0.04")], "0.1");
    result.avg_price = Some(amount("146.1254"));
    result.cost = Some(amount("14.61254"));
    let text = result.to_json();
    let expected = r#"{"status":"ok","order_id":"ord-1","instrument":"USDJPY","side":"BUY","requested_at":"2025-08-24T00:00:00Z","completed_at":"2025-08-24T00:00:01Z","trace_id":"trace-1","idempotency_key":"key-00001","qty_sent":0.1,"price_sent":null,"fills":[{"px":146.123,"qty":0.06,"ts":"2025-08-24T00:00:01Z"},{"px":146.129,"qty":0.04,"ts":"2025-08-24T00:00:01Z"}],"avg_price":146.1254,"executed_qty":0.1,"cost":14.61254,"slippage":null,"broker":{"name":"paper","order_ref":null},"latency_ms":{"queue":0,"broker_rtt":0,"total":0},"reason_code":null,"warnings":[]}"#;
    assert_eq!(text, expected);
    assert_eq!(ExecResult::parse(&text).unwrap(), result);
}

#[test]
fn unknown_fields_are_ignored_bad_ones_are_not() {
    let text = executed(&[("146.1", "0.1")], "0.1").to_json();
    let grown = text.replacen('{', r#"{"venue":{"mic":"XPAP"},"#, 1);
    assert!(ExecResult::parse(&grown).is_ok());
    for (from, to) in [
        (r#""queue":0"#, r#""queue":1.5"#),
        (r#""total":0"#, r#""total":null"#),
        (r#""warnings":[]"#, r#""warnings":null"#),
        (
            r#""executed_qty":0.1"#,
            r#""executed_qty":0.10000000000000001"#,
        ),
    ] {
        let other = text.replacen(from, to, 1);
        assert_ne!(other, text);
        assert!(ExecResult::parse(&other).is_ok(), "{other}");
    }
    for (from, to) in [
        (r#""status":"ok""#, r#""status":"done""#),
        (r#""executed_qty":0.1"#, r#""executed_qty":"0.1""#),
        (r#""executed_qty":0.1"#, r#""executed_qty":null"#),
        (
            r#""executed_qty":0.1"#,
            r#""executed_qty":0.1,"executed_qty":0.1"#,
        ),
        (r#""side":"BUY""#, r#""side":"HOLD""#),
        (r#""px":146.1"#, r#""px":1e40"#),
        (r#""requested_at":"2025"#, r#""requested_at":"next"#),
    ] {
        let bad = text.replacen(from, to, 1);
        assert_ne!(bad, text);
        assert!(ExecResult::parse(&bad).is_err(), "{bad}");
    }
}

#[test]
fn a_failure_has_its_reason_in_both_fields_and_ends_after_it_began() {
    let order = order("IOC");
    let result = ExecResult::failed(
        Subject::from(&order),
        "http",
        Reason::BrokerDown,
        "connection refused",
        at("2025-08-23T00:00:00Z"),
    );
    // A client's clock that is ahead does not make the result a broken one.
    assert_eq!(result.completed_at, order.requested_at);
    let text = result.to_json();
    let start = r#"{"status":"error","error":"BROKER_DOWN","message":"connection refused","#;
    assert!(text.starts_with(start), "{text}");
    assert!(text.contains(r#""executed_qty":0,"#), "{text}");
    assert!(text.contains(r#""reason_code":"BROKER_DOWN""#), "{text}");
    assert_eq!(ExecResult::parse(&text).unwrap(), result);
}

/// What the ledger keeps.
#[test]
fn the_ledger_stores_the_http_status_of_the_reason() {
    let good = executed(&[("146.1", "0.1")], "0.1").ended();
    assert_eq!(good.http_status, 200);
    for reason in Reason::ALL {
        let subject = Subject::from(&order("IOC"));
        let result = ExecResult::failed(subject, "paper", *reason, "", Timestamp::UNIX_EPOCH);
        let ended = result.ended();
        assert_eq!(ended.http_status, reason.http_status());
        assert_eq!(ended.exec_result, result.to_json());
        assert_eq!(ended.result_digest, result.digest());
        assert_ne!(ended.result_digest, good.result_digest);
    }
}

/// The paper broker returns the order's warnings.
#[test]
fn a_warning_of_the_order_is_kept_once() {
    let mut order = order("IOC");
    order.warnings = vec!["qty 0.019 is sent as 0.01".to_owned()];
    let mut result = executed(&[("146.1", "0.1")], "0.1");
    result.warnings = vec![order.warnings[0].clone(), "thin market".to_owned()];
    let kept = result.into_stored(&order, &Masker::default());
    assert_eq!(kept.warnings, ["qty 0.019 is sent as 0.01", "thin market"]);
}
