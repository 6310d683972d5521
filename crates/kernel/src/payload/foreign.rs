//! Arbitrary documents: no bytes make the parser panic, and what it accepts is read back unchanged.

use proptest::prelude::*;
use serde_json::Value;

use super::{Payload, exact_headers, stored_result};
use crate::QueueName;

/// Parts that documents are made of, and parts that break them.
const PARTS: [&str; 24] = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "\\u0000",
    "\\ud800",
    "\\u00e9",
    "null",
    "true",
    "-0",
    "1e131071",
    "1e-20000",
    "0.10",
    "12345678901234567890123",
    "\"a\":",
    "\"a\"",
    " ",
    "\u{0}",
    "é",
    "[[[[[[[[",
];

fn text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        4 => proptest::sample::select(&PARTS[..]).prop_map(str::to_owned),
        1 => any::<String>(),
    ];
    proptest::collection::vec(part, 0..40).prop_map(|parts| parts.concat())
}

/// A document that is one, nested at most so deep.
fn document() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[^\u{0}]*".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::btree_map("[^\u{0}]{0,4}", inner, 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn headers(text: &str) -> serde_json::Result<serde_json::Map<String, Value>> {
    exact_headers(&mut serde_json::Deserializer::from_str(text))
}

proptest! {
    #[test]
    fn a_payload_is_refused_or_comes_back_as_it_is_kept(text in text(), bytes_max in 0_usize..200_000) {
        if let Ok(payload) = Payload::parse_within(&text, bytes_max) {
            prop_assert!(payload.as_str().len() <= bytes_max);
            let again = Payload::parse(payload.as_str()).unwrap();
            prop_assert_eq!(again.as_str(), payload.as_str());
        }
        drop(headers(&text));
    }

    #[test]
    fn a_document_is_kept_with_its_meaning(document in document()) {
        let written = serde_json::to_string_pretty(&document).unwrap();
        let payload = Payload::parse(&written).unwrap();
        prop_assert_eq!(&payload, &Payload::of(&document).unwrap());
        prop_assert!(payload == document);
        let nested = format!("{{\"a\":{written}}}");
        if let Ok(read) = headers(&nested) {
            prop_assert!(Payload::of(&read["a"]).unwrap() == payload);
        }
    }

    #[test]
    fn a_result_can_always_be_shown(text in text(), levels in 0_usize..300) {
        let deep = format!("{}{text}{}", "[".repeat(levels), "]".repeat(levels));
        for text in [&text, &deep] {
            let shown = serde_json::json!({"attempts": [{"result": stored_result(text)}]});
            let read: Value = serde_json::from_str(&shown.to_string()).unwrap();
            prop_assert_eq!(read, shown);
        }
    }

    #[test]
    fn a_queues_name_is_refused_or_kept(name in prop_oneof![any::<String>(), "[a-z0-9._-]{0,70}"]) {
        if let Ok(queue) = name.parse::<QueueName>() {
            prop_assert_eq!(queue.as_str(), name.as_str());
            prop_assert!((1..=63).contains(&name.len()) && name.is_ascii());
        }
    }
}
