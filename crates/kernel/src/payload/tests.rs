use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Value, json};

use super::*;

fn payload(text: &str) -> Payload {
    Payload::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn hash(payload: &Payload) -> u64 {
    let mut hasher = DefaultHasher::new();
    payload.hash(&mut hasher);
    hasher.finish()
}

#[test]
fn a_document_has_one_text() {
    for (text, expected) in [
        (" [ 1 , 2.50 ,-0 ]\n", "[1,2.50,0]"),
        (
            r#"{"b" : {"d":1,"c":2} , "a":[]}"#,
            r#"{"a":[],"b":{"c":2,"d":1}}"#,
        ),
        (
            r#"{"bb":1,"a":2,"b":3,"":4}"#,
            r#"{"":4,"a":2,"b":3,"bb":1}"#,
        ),
        ("{}", "{}"),
        ("[ ]", "[]"),
        ("true", "true"),
        (
            r#"{"n":12345678901234567890123,"d":0.12345678901234567890}"#,
            r#"{"d":0.12345678901234567890,"n":12345678901234567890123}"#,
        ),
        (
            r#""\u0041\/\u00e4\ud83e\udd80\u001F\u0008\u0022""#,
            r#""A/ä🦀\u001f\b\"""#,
        ),
        (
            r#""\"\\\b\f\n\r\t \u007f""#,
            "\"\\\"\\\\\\b\\f\\n\\r\\t \u{7f}\"",
        ),
        (r#"{"\u0061":1,"b":1e3}"#, r#"{"a":1,"b":1000}"#),
    ] {
        assert_eq!(payload(text).as_str(), expected, "{text}");
        assert_eq!(payload(expected).as_str(), expected, "of itself");
    }
}

#[test]
fn payloads_are_equal_that_jsonb_calls_equal() {
    let same = [
        ("1", "1.0"),
        ("1", "1e0"),
        ("0", "-0.00"),
        ("100", "1e2"),
        ("-1.50", "-15e-1"),
        (r#"{"a":1,"b":[2.0]}"#, r#"{"b":[2],"a":1.0}"#),
        (r#"["1.0",1.0]"#, r#"["1.0",1]"#),
        (r#"{"a.0\"":1.0}"#, r#"{"a.0\"":1}"#),
    ];
    for (a, b) in same {
        assert_eq!(payload(a), payload(b));
        assert_eq!(hash(&payload(a)), hash(&payload(b)), "{a} and {b}");
    }
    let different = [
        ("1", r#""1""#),
        ("10", "1"),
        ("0.10", "0.01"),
        (r#""1.0""#, r#""1""#),
        (r#"["\\",1.0]"#, r#"["\\",1.01]"#),
        ("9007199254740993", "9007199254740992"),
        ("12345678901234567890123", "12345678901234567890124"),
        ("[1,2]", "[2,1]"),
        (r#"{"a":null}"#, "{}"),
        (r#"{"1.0":1}"#, r#"{"1":1}"#),
    ];
    for (a, b) in different {
        assert_ne!(payload(a), payload(b));
    }
}

#[test]
fn what_cannot_be_kept_is_refused_with_its_place() {
    let deep = format!("{}{}", "[".repeat(101), "]".repeat(101));
    for (text, place, why) in [
        (r#"{"a":1,"a":1}"#, "a", "duplicate name"),
        (
            r#"{"x":[0,{"a":1,"\u0061":2}]}"#,
            "x[1].a",
            "duplicate name",
        ),
        (
            r#"{"x y":{"\n":1,"\n":2}}"#,
            r#"["x y"]["\n"]"#,
            "duplicate name",
        ),
        (r#"{"a":["x\u0000"]}"#, "a[0]", "U+0000"),
        (r#"{"a":{"k\u0000":1}}"#, "a", "U+0000"),
        (r#"["\ud800"]"#, "[0]", "surrogate"),
        (r#"["\ud800\u0041"]"#, "[0]", "surrogate"),
        (r#"["\udc00"]"#, "[0]", "surrogate"),
        (r#"{"big":1e131072}"#, "big", "131072 digits"),
        (r#"{"small":[1e-16384]}"#, "small[0]", "16383 digits"),
        (deep.as_str(), "", "100 levels"),
    ] {
        let error = Payload::parse(text).unwrap_err();
        assert_eq!(error.place, place, "{text}");
        assert!(error.why.contains(why), "{text}: {error}");
    }
    let error = Payload::parse(r#"{"a":[1,1.0,1]"#).unwrap_err();
    assert_eq!(
        error.to_string(),
        "EOF while parsing an object at line 1 column 14"
    );
}

#[test]
fn what_is_not_json_is_refused() {
    for text in [
        "",
        " ",
        "nul",
        "nulls",
        "+1",
        "01",
        "1.",
        ".5",
        "1e",
        "1e+",
        "-",
        "0x1",
        "NaN",
        "[1,]",
        "[1 2]",
        "[",
        "]",
        "{",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{a:1}",
        "{1:1}",
        "1 2",
        "\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\\u+123\"",
        "\"\n\"",
        "'a'",
        "\u{feff}1",
    ] {
        assert!(Payload::parse(text).is_err(), "{text:?}");
        assert!(serde_json::from_str::<Value>(text).is_err(), "{text:?}");
    }
}

#[test]
fn a_bound_holds_for_the_canonical_text() {
    let bomb = format!("[{}1]", "1e131071,".repeat(1_000));
    let error = Payload::parse(&bomb).unwrap_err();
    assert!(error.why.contains("67108864 bytes"), "{error}");
    assert!(Payload::parse_within("[1, 1e3]", 8).is_ok());
    assert!(Payload::parse_within("[1, 1e3]", 7).is_err());
    assert!(Payload::parse_within("[1,1]                ", 5).is_ok());
}

#[test]
fn values_become_payloads_or_name_the_error() {
    let value = json!({"b": [1, -2.5, "x"], "a": null});
    let payload = Payload::from(value.clone());
    assert_eq!(payload.as_str(), value.to_string());
    assert_eq!(payload, value);
    assert!(payload.refusal().is_none());
    let nul = Payload::from(json!({"a": "\0"}));
    assert_eq!(nul.refusal().unwrap().place, "a");
    assert_eq!(
        nul.refusal().unwrap().clone().named("payload").to_string(),
        "payload.a: contains U+0000, which JSON columns cannot store"
    );
}

#[test]
fn a_payload_travels_through_serde_exactly() {
    #[derive(Serialize, Deserialize)]
    struct Envelope {
        number: i64,
        payload: Payload,
    }
    let text = r#"{"number":1,"payload":{"n":12345678901234567890123}}"#;
    let envelope: Envelope = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&envelope).unwrap(), text);
    assert_eq!(Payload::of(&envelope).unwrap().as_str(), text);
    let read: Envelope = Payload::of(&envelope).unwrap().read().unwrap();
    assert_eq!(read.payload, envelope.payload);
    let twice = r#"{"number":1,"payload":{"a":{"n":1,"n":2}}}"#;
    let error = serde_json::from_str::<Envelope>(twice).err().unwrap();
    assert!(
        error.to_string().starts_with("a.n: is a duplicate name"),
        "{error}"
    );
    assert!(
        Payload::of(&f64::NAN).unwrap() == json!(null),
        "as serde_json writes it"
    );
}
