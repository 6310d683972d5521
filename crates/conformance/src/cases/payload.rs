//! Payloads are exact: kept to the last digit, compared by value, the same bytes on every attempt.

use consign_kernel::{
    Error, NewMessage, Outcome, PAYLOAD_DEPTH_MAX, Payload, QueuePolicy, StateKind,
};
use serde_json::Value;

use crate::{
    Harness,
    stage::{Stage, policy, refused, s},
};

/// Documents, and their one text: that of every store, on every attempt.
const DOCUMENTS: &[(&str, &str)] = &[
    (
        r#"{"n": 12345678901234567890123, "d": 0.12345678901234567890}"#,
        r#"{"d":0.12345678901234567890,"n":12345678901234567890123}"#,
    ),
    ("1.0", "1.0"),
    ("1.50e1", "15.0"),
    ("[1e-2,1E3,-0,-0.0,-12.5e-1]", "[0.01,1000,0,0.0,-1.25]"),
    (
        "100000000000000000000000000000000.00000000000000001",
        "100000000000000000000000000000000.00000000000000001",
    ),
    (
        "0.1000000000000000055511151231257827",
        "0.1000000000000000055511151231257827",
    ),
    (
        r#"{"bb":1,"a":{"d":[],"c":{}},"":null}"#,
        r#"{"":null,"a":{"c":{},"d":[]},"bb":1}"#,
    ),
    (
        r#""\u0041\/\u00e4\ud83e\udd80\u001f\u007f\b\"\\ e\u0301""#,
        "\"A/ä🦀\\u001f\u{7f}\\b\\\"\\\\ e\u{301}\"",
    ),
];

fn message(stage: &Stage<'_>, text: &str) -> NewMessage {
    let payload = Payload::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    NewMessage::new(stage.queue.clone(), payload)
}

pub(crate) async fn a_payload_is_kept_to_the_last_digit(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let messages: Vec<NewMessage> = DOCUMENTS
        .iter()
        .map(|(text, _)| message(&stage, text))
        .collect();
    let ids = stage.enqueue_all(&messages).await;
    let expected: Vec<&str> = DOCUMENTS.iter().map(|(_, text)| *text).collect();
    for attempt in 1..=3 {
        let lease = stage.claim(100).await;
        let texts = lease.messages.iter().map(|m| m.message.payload.as_str());
        assert_eq!(texts.collect::<Vec<_>>(), expected, "attempt {attempt}");
        for id in &ids {
            stage.report(&lease, *id, Outcome::Retry).await;
        }
        stage.advance(s(2)).await;
    }
    for (id, expected) in ids.iter().zip(expected) {
        let explanation = stage.explain(*id).await;
        assert_eq!(explanation.message.payload.as_str(), expected);
        assert_eq!(explanation.state.kind(), StateKind::Dead);
    }
}

pub(crate) async fn a_key_compares_numbers_by_value(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let same: [&[&str]; 3] = [
        &[
            "1",
            "1.0",
            "1e0",
            "10e-1",
            "1.000000000000000000000000000000",
        ],
        &[
            r#"{"a":12345678901234567890123,"b":[0.10]}"#,
            r#"{"b":[0.1],"a":12345678901234567890123.0}"#,
            r#"{"b":[1e-1],"a":1.2345678901234567890123e22}"#,
        ],
        &["0", "-0", "0.00", "0e5"],
    ];
    for (n, spellings) in same.into_iter().enumerate() {
        let key = format!("same-{n}");
        stage
            .enqueue_all(&[message(&stage, spellings[0]).with_key(&key)])
            .await;
        for spelling in spellings {
            let again = [message(&stage, spelling).with_key(&key)];
            let answers = stage.try_enqueue(&again).await;
            let answers = answers.unwrap_or_else(|error| panic!("{spelling}: {error}"));
            assert!(answers[0].duplicate, "{spelling} is {}", spellings[0]);
        }
    }
    let different = [
        ("12345678901234567890123", "12345678901234567890124"),
        ("0.12345678901234567890", "0.12345678901234567891"),
        ("1e-16383", "2e-16383"),
        ("1e131071", "1e131070"),
        (r#""é""#, "\"e\u{301}\""),
        (r#"{"1":1}"#, r#"{"1.0":1}"#),
    ];
    for (n, (first, second)) in different.into_iter().enumerate() {
        let key = format!("different-{n}");
        stage
            .enqueue_all(&[message(&stage, first).with_key(&key)])
            .await;
        let other = [message(&stage, second).with_key(&key)];
        refused(stage.try_enqueue(&other).await, "key_conflict");
        // And within one call.
        let key = format!("different-{n}-within");
        let both = [first, second].map(|text| message(&stage, text).with_key(&key));
        refused(stage.try_enqueue(&both).await, "key_conflict");
    }
}

pub(crate) async fn a_payload_is_measured_written_out(harness: &dyn Harness) {
    let rules = QueuePolicy {
        payload_max_bytes: 1_000,
        ..policy()
    };
    let stage = Stage::with(harness, rules).await;
    for (text, bytes_over) in [("1e1000", 1_001), ("[1e-500,-1e500]", 1_007)] {
        let error = refused(
            stage.try_enqueue(&[message(&stage, text)]).await,
            "payload_too_large",
        );
        let Error::PayloadTooLarge { bytes, .. } = error else {
            unreachable!("the code was checked")
        };
        assert_eq!(bytes, bytes_over, "{text}");
    }
    stage.claim_nothing("both were refused").await;
    stage.enqueue_all(&[message(&stage, "1e999")]).await;
    let claimed = stage.claim(1).await.messages.remove(0);
    assert_eq!(claimed.message.payload.as_str().len(), 1_000);
}

pub(crate) async fn a_payload_may_be_as_deep_as_the_limit(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let nested = |levels: usize| {
        let mut value = Value::from(1);
        for _ in 0..levels {
            value = Value::Array(vec![value]);
        }
        NewMessage::new(stage.queue.clone(), value)
    };
    let deep = nested(PAYLOAD_DEPTH_MAX + 1);
    let error = refused(stage.try_enqueue(&[deep]).await, "invalid_input");
    assert!(error.to_string().contains("message 0: payload"), "{error}");
    let fits = nested(PAYLOAD_DEPTH_MAX);
    stage.enqueue_all(std::slice::from_ref(&fits)).await;
    let claimed = stage.claim(1).await.messages.remove(0);
    assert_eq!(claimed.message.payload, fits.payload);
}
