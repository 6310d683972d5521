//! `consign enqueue`: one message, many lines, and everything that is refused.

use consign_kernel::MessageId;
use serde_json::{Value, json};

use crate::support::Consign;

fn count(consign: &Consign) -> usize {
    let page = consign.json(["ls", "--limit", "1000"]);
    page["items"].as_array().unwrap().len()
}

#[test]
fn one_message_with_everything() {
    let consign = Consign::new();
    let arguments = [
        "enqueue",
        r#"{"a": 1}"#,
        "--key",
        "k",
        "--group",
        "g",
        "--delay",
        "1h",
        "--header",
        "x=y=z",
        "--header",
        "n=1",
    ];
    let ran = consign.run(arguments).expect(0);
    assert_eq!(ran.stdout, "message 1 is ready\n");
    assert_eq!(ran.stderr, "");
    let shown = consign.json(["show", "1"]);
    assert_eq!(shown["message"]["payload"], json!({"a": 1}));
    assert_eq!(shown["message"]["key"], "k");
    assert_eq!(shown["message"]["group"], "g");
    assert_eq!(shown["message"]["headers"], json!({"x": "y=z", "n": "1"}));
    assert_eq!(shown["state"]["state"], "ready");
    let queues = consign.json(["queues", "show", "default"]);
    assert_eq!(queues["counts"]["scheduled"], 1, "the delay is honoured");
}

const EXACT: &str = r#"{"d":0.12345678901234567890,"n":12345678901234567890123}"#;

/// Over every way in and out of the command line, to the last digit.
pub(crate) fn exactly(consign: &Consign) {
    let log = consign.folder().join("sent.jsonl");
    consign.configure(&format!(
        "[queues.default.sink]\nkind = \"log\"\npath = {log:?}\npayload = true\n"
    ));
    consign.run(["enqueue", EXACT, "--key", "k"]).expect(0);
    let spelled = EXACT.replace("123}", "123.000}");
    let again = consign.json(["enqueue", &spelled, "--key", "k"]);
    assert_eq!(again["duplicate"], true);
    let other = EXACT.replace("123}", "124}");
    let (code, _) = consign
        .run(["enqueue", &other, "--key", "k", "--json"])
        .expect(3)
        .error();
    assert_eq!(code, "key_conflict");
    let lines = format!("{{\"payload\": {EXACT}}}\n{{\"payload\": 1.50e1}}\n");
    consign.run_with(["enqueue"], lines.as_bytes()).expect(0);
    consign
        .run_with(["enqueue", "-"], EXACT.as_bytes())
        .expect(0);
    let shown = consign.run(["show", "1", "--json"]).expect(0).stdout;
    assert!(shown.contains(&format!(r#""payload":{EXACT}"#)), "{shown}");
    let shown = consign.run(["show", "1"]).expect(0).stdout;
    assert!(shown.contains(&format!("payload   {EXACT}")), "{shown}");
    consign.run(["work", "--once"]).expect(0);
    let sent = std::fs::read_to_string(log).unwrap();
    assert_eq!(
        sent.matches(&format!(r#""payload":{EXACT}"#)).count(),
        3,
        "{sent}"
    );
    assert!(sent.contains(r#""payload":15.0}"#), "{sent}");
}

#[test]
fn payloads_are_kept_to_the_last_digit() {
    exactly(&Consign::new());
}

#[test]
fn what_no_payload_can_be_is_refused_with_its_place() {
    let consign = Consign::new();
    for (payload, place) in [
        (r#"{"a":{"b":1,"b":1}}"#, "payload.a.b: is a duplicate name"),
        (
            r#"["\ud800"]"#,
            "payload[0]: contains half of a surrogate pair",
        ),
        (r#"{"n":1e131072}"#, "payload.n: is a number beyond"),
        (r#"["\u0000"]"#, "payload[0]: contains U+0000"),
    ] {
        let (code, message) = consign
            .run(["enqueue", payload, "--json"])
            .expect(3)
            .error();
        assert_eq!(code, "invalid_input");
        assert!(message.starts_with(place), "{message}");
        let line = format!("{{\"payload\": {payload}}}\n");
        let ran = consign.run_with(["enqueue", "--json"], line.as_bytes());
        let (_, message) = ran.expect(3).error();
        assert!(
            message.starts_with(&format!("line 1: {place}")),
            "{message}"
        );
    }
    assert_eq!(count(&consign), 0);
}

#[test]
fn the_same_key_is_the_same_message_and_another_payload_is_a_conflict() {
    let consign = Consign::new();
    let first = consign.json(["enqueue", "1", "--key", "k"]);
    assert_eq!(
        first,
        json!({"id": 1, "duplicate": false, "state": "ready"})
    );
    let again = consign.json(["enqueue", "1", "--key", "k"]);
    assert_eq!(again, json!({"id": 1, "duplicate": true, "state": "ready"}));
    let ran = consign.run(["enqueue", "1", "--key", "k"]).expect(0);
    assert_eq!(
        ran.stdout,
        "message 1 had this key already (ready); nothing was enqueued\n"
    );
    let (code, message) = consign
        .run(["enqueue", "2", "--key", "k", "--json"])
        .expect(3)
        .error();
    assert_eq!(code, "key_conflict");
    assert!(message.contains("message 1"), "{message}");
    assert_eq!(count(&consign), 1);
}

#[test]
fn a_payload_from_standard_input() {
    let consign = Consign::new();
    consign
        .run_with(["enqueue", "-"], b"{\n  \"a\": [1, 2]\n}\n")
        .expect(0);
    let shown = consign.json(["show", "1"]);
    assert_eq!(shown["message"]["payload"], json!({"a": [1, 2]}));
    let ran = consign.run_with(["enqueue", "-"], b"\"\xff\"").expect(3);
    assert!(ran.stderr.contains("not UTF-8 from byte 1"), "{ran:#?}");
}

#[test]
fn what_is_not_json_is_refused_with_a_hint() {
    let consign = Consign::new();
    let ran = consign.run(["enqueue", "hello"]).expect(3);
    assert!(ran.stderr.contains("the payload is not JSON"), "{ran:#?}");
    assert!(ran.stderr.contains(r#"'"hello"'"#), "{ran:#?}");
    assert_eq!(count(&consign), 0);
}

#[test]
fn an_unknown_queue_is_refused_and_the_nearest_suggested() {
    let consign = Consign::new();
    let ran = consign
        .run(["enqueue", "1", "--queue", "defualt", "--json"])
        .expect(3);
    let (code, message) = ran.error();
    assert_eq!(code, "unknown_queue");
    assert!(message.contains(r#"did you mean "default"?"#), "{message}");
    consign
        .run(["enqueue", "1", "--queue", "No Such"])
        .expect(2);
}

#[test]
fn lines_are_enqueued_in_batches() {
    let consign = Consign::new();
    consign.run(["queues", "set", "mail"]).expect(0);
    let mut input = String::new();
    for n in 0..1_201 {
        input.push_str(&json!({"payload": n, "key": format!("k{n}")}).to_string());
        input.push_str("\n\n");
    }
    input.push_str(r#"{"payload": null, "queue": "mail", "group": "g", "headers": {"h": 1}, "delay_ms": 60000}"#);
    let ran = consign.run_with(["enqueue"], input.as_bytes()).expect(0);
    assert_eq!(ran.stdout, "1202 messages were enqueued\n");
    assert_eq!(ran.stderr, "", "no progress bar outside a terminal");
    let queues = consign.json(["queues"]);
    assert_eq!(queues["items"][0]["counts"]["ready"], 1_201);
    assert_eq!(queues["items"][1]["counts"]["scheduled"], 1);

    let again = consign
        .run_with(["enqueue", "--json"], input.as_bytes())
        .expect(0);
    let answers = again.json_lines();
    assert_eq!(answers.len(), 1_202);
    assert_eq!(
        answers[0],
        json!({"line": 1, "id": 1, "duplicate": true, "state": "ready"})
    );
    assert_eq!(answers[1_201]["line"], 2_403);
    assert_eq!(answers[1_201]["duplicate"], false, "it has no key");
}

/// Line 3 of 4, its error, and its code.
fn check_bad_line(line: &[u8], code: &str, said: &str) {
    let consign = Consign::new();
    let good = b"{\"payload\": 1, \"key\": \"a\"}\n{\"payload\": 2}\n";
    let input = [good, line, b"\n{\"payload\": 4}\n"].concat();
    let ran = consign.run_with(["enqueue", "--json"], &input).expect(3);
    let (actual, message) = ran.error();
    assert_eq!(actual, code, "{message}");
    assert!(message.starts_with("line 3: "), "{message}");
    assert!(message.contains(said), "{message}");
    assert!(
        message.ends_with("2 messages were enqueued before it; nothing after it was"),
        "{message}"
    );
    let lines: Vec<Value> = ran
        .json_lines()
        .iter()
        .map(|line| line["line"].clone())
        .collect();
    assert_eq!(lines, [1, 2]);
    assert_eq!(count(&consign), 2);
}

#[test]
fn a_bad_line_is_named_and_nothing_after_it_is_sent() {
    check_bad_line(b"{\"payload\": ", "invalid_input", "EOF while parsing");
    check_bad_line(
        b"{\"payload\": 1}}",
        "invalid_input",
        "trailing characters, column 15",
    );
    check_bad_line(
        b"{\"paylod\": 1}",
        "invalid_input",
        "unknown field `paylod`",
    );
    check_bad_line(
        b"{\"key\": \"x\"}",
        "invalid_input",
        "missing field `payload`",
    );
    check_bad_line(
        b"{\"payload\": \"\xff\"}",
        "invalid_input",
        "not UTF-8 from byte 13",
    );
    check_bad_line(
        b"{\"payload\": 1, \"queue\": \"A B\"}",
        "invalid_input",
        "a queue's name",
    );
    check_bad_line(
        b"{\"payload\": 1, \"queue\": \"defualt\"}",
        "unknown_queue",
        "did you mean",
    );
    check_bad_line(b"{\"payload\": 9, \"key\": \"a\"}", "key_conflict", "\"a\"");
    check_bad_line(
        b"{\"payload\": 1, \"key\": \"\"}",
        "invalid_input",
        "key: has ",
    );
    check_bad_line(b"{\"payload\": \"\\u0000\"}", "invalid_input", "U+0000");
}

#[test]
fn a_payload_over_the_queues_limit_is_refused() {
    let consign = Consign::new();
    consign
        .run(["queues", "set", "small", "--payload-max", "8"])
        .expect(0);
    let ran = consign
        .run(["enqueue", r#""123456789""#, "--queue", "small", "--json"])
        .expect(3);
    assert_eq!(ran.error().0, "payload_too_large");
}

#[test]
fn an_empty_input_enqueues_nothing() {
    let consign = Consign::new();
    let ran = consign.run_with(["enqueue"], b"").expect(0);
    assert_eq!(ran.stdout, "0 messages were enqueued\n");
    assert_eq!(consign.enqueue_one(), MessageId(1));
}

#[test]
fn a_key_without_a_payload_is_a_usage_error() {
    Consign::new().run(["enqueue", "--key", "k"]).expect(2);
}
