use super::*;
use crate::json::parse;

fn digest_of(text: &str) -> String {
    request_digest(&parse(text.as_bytes()).unwrap().root)
}

const REQUEST_DIGEST: &str =
    "sha256:7851cb24fab37208ed567244bc268e514db6e6936635c0a43996d25616ca34e0";

#[test]
fn every_way_to_write_a_request_has_one_digest() {
    let table = [
        r#"{"instrument":"USDJPY","qty":10000,"side":"BUY"}"#,
        r#"{"side": "BUY", "qty": 10000, "instrument": "USDJPY"}"#,
        "{\n\t\"qty\" : 10000.0 ,\r\n \"side\":\"BUY\",\"instrument\":\"USDJPY\" }\n",
        r#"{"instrument":"USDJPY","qty":1e4,"side":"BUY"}"#,
        r#"{"instrument":"USDJPY","qty":10000,"side":"BUY","trace_id":"trace-abc"}"#,
        r#"{"instrument":"USDJPY","qty":10000,"side":"BUY","trace_id":{"a":[1]}}"#,
        r#"{"idempotency_key":"01JABCXYZ","instrument":"USDJPY","qty":10000,"side":"BUY"}"#,
        r#"{"instrument":"\u0055SDJPY","qty":1E+4,"side":"BUY"}"#,
    ];
    for text in table {
        assert_eq!(digest_of(text), REQUEST_DIGEST, "{text}");
    }
}

/// The digest over the text with `.0` never appears.
#[test]
fn a_trailing_zero_does_not_change_the_digest() {
    let unnormalised = "sha256:bbbc07a1d833d195a97a0cc9f0c3e169c4c5adb577fd18066f88160aca0cea75";
    let text = r#"{"instrument":"USDJPY","qty":10000.0,"side":"BUY"}"#;
    assert_eq!(sha256(text), unnormalised);
    assert_ne!(digest_of(text), unnormalised);
}

#[test]
fn a_whole_order_has_the_digest_of_the_specification() {
    let vector = "sha256:4650c7bd63b4f9df524521553a613898c13627a933d86faa1fc4986b45e8dede";
    let order = |qty: &str, key: &str| {
        format!(
            r#"{{"order_id":"tc-1","instrument":"USDJPY","side":"BUY","qty":{qty},"price":null,
                "time_in_force":"IOC","tags":["qa"],"idempotency_key":"{key}",
                "requested_at":"2025-08-24T00:00:00Z","risk_constraints":
                {{"max_dd":0.1,"max_consecutive_loss":3,"max_spread":0.002}}}}"#
        )
    };
    for qty in ["0.1", "0.10", "1e-1"] {
        assert_eq!(digest_of(&order(qty, "key-00001")), vector, "{qty}");
        assert_eq!(digest_of(&order(qty, "key-00002")), vector, "{qty}");
    }
}

/// Defaults do not enter the digest; every given field does.
#[test]
fn every_other_difference_changes_the_request_digest() {
    let members = [
        r#""price":null"#,
        r#""time_in_force":"IOC""#,
        r#""tags":[]"#,
        r#""tags":["a","b"]"#,
        r#""tags":["b","a"]"#,
        r#""order_id":"ord-1""#,
        r#""requested_at":"2025-08-24T00:00:00Z""#,
        r#""requested_at":"2025-08-24T00:00:01Z""#,
        r#""risk_constraints":{"trace_id":1}"#,
        r#""Trace_id":"t""#,
    ];
    let mut seen = vec![REQUEST_DIGEST.to_owned()];
    for member in members {
        let text = format!(r#"{{"instrument":"USDJPY","qty":10000,"side":"BUY",{member}}}"#);
        let digest = digest_of(&text);
        assert!(!seen.contains(&digest), "{member}");
        seen.push(digest);
    }
}

/// The sample of the contract: two fills, average as printed there.
const SAMPLE: &str = r#"{"status":"ok","order_id":"ord-20250824-0001","instrument":"USDJPY",
    "side":"BUY","requested_at":"2025-08-24T00:00:00Z","completed_at":"2025-08-24T00:00:00Z",
    "trace_id":"trace-abc","idempotency_key":"01JABCXYZ-ULID-5678",
    "fills":[{"px":146.123,"qty":0.06,"ts":"2025-08-24T00:00:00Z"},
             {"px":146.129,"qty":0.04,"ts":"2025-08-24T00:00:00Z"}],
    "avg_price":146.1252,"executed_qty":0.10,"cost":14612.52,"slippage":0.0003,
    "broker":{"name":"paper","order_ref":"bk-7890"},
    "latency_ms":{"queue":3,"broker_rtt":22,"total":30},"reason_code":null,"warnings":[]}"#;

fn sample() -> ExecResult {
    ExecResult::parse(SAMPLE).unwrap()
}

#[test]
fn the_sample_result_has_the_digest_of_the_specification() {
    let vector = "sha256:2efe168fbd3d33d235aed374dc20318e592121783a9d0730cb439700d20db32b";
    assert_eq!(sample().digest(), vector);
}

/// The specification computes its value over `"executed_qty":0.0`. Requests and results have one
/// form of zero, `0`, so that value never appears.
#[test]
fn zero_enters_the_result_digest_in_normal_form() {
    let text = |zero: &str| {
        format!(
            r#"{{"avg_price":null,"executed_qty":{zero},"fills":[],"instrument":"USDJPY","order_id":"ord-20250824-0002","reason_code":"BROKER_TIMEOUT","side":"BUY","status":"error"}}"#
        )
    };
    let unnormalised = "sha256:2675f4d7a157abdbf7c34be0f2972ff7567208822b93c1d604e13d9ab064facc";
    assert_eq!(sha256(&text("0.0")), unnormalised);
    let ours = "sha256:8c1a974291e98a67cffd64924ccb8e0bef2eefee2f509ceb40e5947b468790ac";
    assert_eq!(sha256(&text("0")), ours);

    for zero in ["0", "0.0", "0e3"] {
        let result = format!(
            r#"{{"status":"error","order_id":"ord-20250824-0002","instrument":"USDJPY",
                "side":"BUY","requested_at":"2025-08-24T00:00:00Z",
                "completed_at":"2025-08-24T00:00:00Z","trace_id":"trace-abc","fills":[],
                "executed_qty":{zero},"broker":{{"name":"paper","order_ref":null}},
                "latency_ms":{{"queue":0,"broker_rtt":0,"total":0}},
                "reason_code":"BROKER_TIMEOUT"}}"#
        );
        assert_eq!(ExecResult::parse(&result).unwrap().digest(), ours, "{zero}");
    }
}

#[test]
fn only_the_eight_stable_fields_enter_the_result_digest() {
    type Change = fn(&mut ExecResult);
    let without_effect: &[(&str, Change)] = &[
        ("latency_ms", |r| r.latency_ms.total = 99),
        ("warnings", |r| r.warnings.push("late".into())),
        ("broker", |r| r.broker.name = "other".into()),
        ("order_ref", |r| r.broker.order_ref = None),
        ("trace_id", |r| r.trace_id = "other".into()),
        ("completed_at", |r| r.completed_at = jiff::Timestamp::MAX),
        ("requested_at", |r| r.requested_at = jiff::Timestamp::MIN),
        ("idempotency_key", |r| r.idempotency_key = None),
        ("cost", |r| r.cost = None),
        ("slippage", |r| r.slippage = None),
        ("message", |r| r.message = Some("m".into())),
        ("error", |r| r.error = Some(crate::Reason::BrokerDown)),
    ];
    let with_effect: &[(&str, Change)] = &[
        ("status", |r| r.status = crate::ExecStatus::Error),
        ("order_id", |r| r.order_id = "other".into()),
        ("instrument", |r| r.instrument = "EURUSD".into()),
        ("side", |r| r.side = Some(crate::Side::Sell)),
        ("executed_qty", |r| r.executed_qty = crate::Amount::ZERO),
        ("avg_price", |r| r.avg_price = None),
        ("fills", |r| r.fills.reverse()),
        ("reason_code", |r| {
            r.reason_code = Some(crate::Reason::BrokerDown)
        }),
    ];
    let before = sample().digest();
    for (changes, is_same) in [(without_effect, true), (with_effect, false)] {
        for (field, change) in changes {
            let mut result = sample();
            change(&mut result);
            assert_eq!(result.digest() == before, is_same, "{field}");
        }
    }
}
