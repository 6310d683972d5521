//! What JetStream answers to a publish.

use async_nats::client::{RequestError, RequestErrorKind};
use consign_kernel::with_causes;
use consign_worker::Verdict;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::broker::{impossible, in_doubt, not_sent};

/// The message is larger than the stream allows.
const TOO_LARGE_FOR_STREAM: u64 = 10_054;

#[derive(Deserialize)]
struct Answer {
    stream: Option<String>,
    seq: Option<u64>,
    #[serde(default)]
    duplicate: bool,
    error: Option<Refusal>,
}

#[derive(Deserialize)]
struct Refusal {
    #[serde(default)]
    err_code: u64,
    #[serde(default)]
    description: String,
}

/// The verdict on an answer.
pub(super) fn verdict(subject: &str, payload: &[u8]) -> Verdict {
    match serde_json::from_slice(payload) {
        Ok(Answer {
            error: Some(refusal),
            ..
        }) => refused(&refusal),
        Ok(Answer {
            stream: Some(stream),
            seq: Some(sequence),
            duplicate,
            ..
        }) => Verdict::delivered().with_result(stored(&stream, sequence, duplicate)),
        // The responder is no stream.
        Ok(_) | Err(_) => in_doubt(
            "not_jetstream",
            format!("the responder on {subject} is not a JetStream stream"),
        ),
    }
}

/// A duplicate was stored by an earlier attempt, which is as good.
fn stored(stream: &str, sequence: u64, duplicate: bool) -> Value {
    let mut stored = json!({ "stream": stream, "sequence": sequence });
    if duplicate {
        stored["duplicate"] = Value::Bool(true);
    }
    stored
}

/// The stream rejected it: nothing was stored.
fn refused(refusal: &Refusal) -> Verdict {
    let detail = format!("JetStream refuses: {}", refusal.description);
    match refusal.err_code {
        TOO_LARGE_FOR_STREAM => impossible("payload_too_large", detail),
        code => not_sent(format!("jetstream_{code}"), detail),
    }
}

/// The verdict on a publish that was not answered.
pub(super) fn unanswered(subject: &str, error: &RequestError) -> Verdict {
    match error.kind() {
        RequestErrorKind::NoResponders => not_sent(
            "no_stream",
            format!("no JetStream stream takes {subject}, or it has no leader now"),
        ),
        RequestErrorKind::MaxPayloadExceeded => {
            impossible("payload_too_large", format!("NATS: {}", with_causes(error)))
        }
        RequestErrorKind::InvalidSubject => {
            impossible("subject_invalid", format!("{subject:?} is no subject"))
        }
        RequestErrorKind::TimedOut | RequestErrorKind::Other => {
            in_doubt("connection_broken", with_causes(error))
        }
    }
}

#[cfg(test)]
mod tests {
    use consign_kernel::Outcome;
    use consign_worker::About;

    use super::*;

    #[test]
    fn each_answer_has_its_verdict() {
        let table = [
            (r#"{"stream":"S","seq":7}"#, Outcome::Delivered, None),
            (
                r#"{"stream":"S","seq":7,"duplicate":true}"#,
                Outcome::Delivered,
                None,
            ),
            (
                r#"{"error":{"code":400,"err_code":10054,"description":"too big"}}"#,
                Outcome::Dead,
                Some("payload_too_large"),
            ),
            (
                r#"{"error":{"code":503,"err_code":10077,"description":"full"}}"#,
                Outcome::Retry,
                Some("jetstream_10077"),
            ),
            ("pong", Outcome::Uncertain, Some("not_jetstream")),
            ("{}", Outcome::Uncertain, Some("not_jetstream")),
        ];
        for (answer, outcome, code) in table {
            let verdict = verdict("a.b", answer.as_bytes());
            assert_eq!(verdict.outcome, outcome, "{answer}");
            assert_eq!(verdict.code.as_deref(), code, "{answer}");
        }
    }

    #[test]
    fn a_subject_without_a_stream_is_a_failure_of_the_sink() {
        let verdict = unanswered("a.b", &RequestErrorKind::NoResponders.into());
        assert_eq!(
            (verdict.outcome, verdict.about),
            (Outcome::Retry, About::Sink)
        );
        assert!(verdict.detail.unwrap().contains("a.b"));
    }
}
