//! The verdicts of deliveries.

use std::{error::Error as StdError, time::Duration};

use consign_kernel::{Certainty, Error, Outcome};
use consign_worker::{About, Delivery, Verdict};
use serde_json::json;

use crate::{BackendError, KnownMemory, StoredMemory, setting_for};

/// Codes of attempts of the queue `memory`, beside `connection_error`, `api_error_<status>` and
/// `openmemory_error`.
pub mod codes {
    /// The same text was stored before, and the memory server confirmed it.
    pub const DEDUP_HIT: &str = "dedup_hit";
    /// An earlier attempt with an unknown result had stored it.
    pub const FOUND: &str = "found";
    /// The logbook did not answer in time.
    pub const DB_TIMEOUT: &str = "db_timeout";
    /// The logbook failed.
    pub const DB_ERROR: &str = "db_error";
    /// The message is no memory.
    pub const MALFORMED: &str = "malformed";
}

/// The longest `Retry-After` that is honoured.
const RETRY_IN_MAX: Duration = Duration::from_hours(1);

/// Stored. `is_again`: the memory server had lost it.
pub(super) fn stored(stored: &StoredMemory, is_again: bool) -> Verdict {
    let mut result = json!({"memory_id": stored.memory_id});
    if is_again {
        result["stored_again"] = json!(true);
    }
    Verdict::delivered().with_result(result)
}

/// Stored by an earlier attempt.
pub(super) fn found(memory: &StoredMemory) -> Verdict {
    Verdict {
        code: Some(codes::FOUND.to_owned()),
        ..stored(memory, false)
    }
}

/// Stored before according to the logbook, and confirmed by the memory server.
pub(super) fn deduplicated(found: &KnownMemory, stored: &StoredMemory) -> Verdict {
    let mut result = json!({"memory_id": stored.memory_id});
    if let Some(outbox_id) = found.outbox_id {
        result["original_outbox_id"] = json!(outbox_id);
    }
    Verdict {
        code: Some(codes::DEDUP_HIT.to_owned()),
        ..Verdict::delivered().with_result(result)
    }
}

/// The message names another backend than this worker's; nothing was sent.
pub(super) fn misdirected(delivery: &Delivery, backend: &str, own: &str) -> Verdict {
    let detail = format!(
        "the memory is for the backend {backend}, but this worker uses {own}; {}",
        setting_for(backend)
    );
    Verdict::misdirected(delivery, detail)
}

/// Not stored, or with an unknown result.
pub(super) fn failed(error: &BackendError) -> Verdict {
    let (outcome, about) = match error {
        BackendError::Unreachable(_) => (Outcome::Retry, About::Sink),
        BackendError::Unknown(_) => (Outcome::Uncertain, About::Sink),
        BackendError::Api { status: 429, .. } => (Outcome::Retry, About::Pace),
        // An operator has to change the key; the memories wait until then.
        error if error.is_about_us() => (Outcome::Retry, About::Sink),
        error if error.is_refusal() => (Outcome::Dead, About::Message),
        // The server may have failed after the write.
        BackendError::Api { .. } => (Outcome::Uncertain, About::Sink),
        BackendError::Protocol(_) => (Outcome::Uncertain, About::Message),
    };
    let retry_in = match error {
        BackendError::Api { retry_in, .. } => retry_in.map(|delay| delay.min(RETRY_IN_MAX)),
        _ => None,
    };
    Verdict::failed(outcome, about, error.word(), error.to_string()).with_retry_in(retry_in)
}

/// Nothing was sent, and the result of an earlier attempt is still unknown.
pub(super) fn still_in_doubt(error: &BackendError) -> Verdict {
    Verdict {
        outcome: Outcome::Uncertain,
        ..failed(error)
    }
}

/// The logbook could not be read. Nothing was sent.
pub(super) fn database_failed(error: &Error) -> Verdict {
    let code = if is_timeout(error) {
        codes::DB_TIMEOUT
    } else {
        codes::DB_ERROR
    };
    let detail = format!("{code}: {}", chain(error));
    Verdict::failed(Outcome::Retry, About::Message, code, detail)
}

/// The logbook did not answer. Nothing was sent.
pub(super) fn database_timed_out(why: &str) -> Verdict {
    let code = codes::DB_TIMEOUT;
    let detail = format!("{code}: {why}");
    Verdict::failed(Outcome::Retry, About::Message, code, detail)
}

/// Whether the database cancelled a statement (SQLSTATE 57014) or could not be reached in time.
fn is_timeout(error: &Error) -> bool {
    let text = chain(error);
    let words = [
        "statement timeout",
        "canceling statement",
        "timed out",
        "57014",
    ];
    error.certainty() == Certainty::Unknown && text.contains("timeout")
        || words.iter().any(|word| text.contains(word))
}

/// An error with its causes, in one line.
fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn api(status: u16) -> BackendError {
        BackendError::Api {
            status,
            message: "no".to_owned(),
            retry_in: None,
        }
    }

    #[test]
    fn a_backend_error_determines_the_outcome() {
        use About::{Message, Pace, Sink};
        use Outcome::{Dead, Retry, Uncertain};
        let table = [
            (
                BackendError::Unreachable("x".into()),
                Retry,
                Sink,
                "connection_error",
            ),
            (
                BackendError::Unknown("x".into()),
                Uncertain,
                Sink,
                "connection_error",
            ),
            (api(400), Dead, Message, "api_error_400"),
            (api(413), Dead, Message, "api_error_413"),
            (api(401), Retry, Sink, "api_error_401"),
            (api(403), Retry, Sink, "api_error_403"),
            (api(408), Uncertain, Sink, "api_error_408"),
            (api(429), Retry, Pace, "api_error_429"),
            (api(503), Uncertain, Sink, "api_error_503"),
            (
                BackendError::Protocol("x".into()),
                Uncertain,
                Message,
                "openmemory_error",
            ),
        ];
        for (error, outcome, about, code) in table {
            let verdict = failed(&error);
            assert_eq!(
                (verdict.outcome, verdict.about),
                (outcome, about),
                "{error}"
            );
            assert_eq!(verdict.code.as_deref(), Some(code), "{error}");
            assert_eq!(verdict.detail, Some(error.to_string()));
        }
    }

    #[test]
    fn retry_after_is_capped_at_an_hour() {
        for (asked, rest) in [(7, 7), (3_600, 3_600), (u64::MAX, 3_600)] {
            let verdict = failed(&BackendError::Api {
                status: 429,
                message: "slow down".to_owned(),
                retry_in: Some(Duration::from_secs(asked)),
            });
            assert_eq!(verdict.retry_in, Some(Duration::from_secs(rest)));
        }
    }

    #[test]
    fn a_dedup_hit_names_the_stored_memory() {
        let stored = StoredMemory {
            memory_id: "m0".to_owned(),
        };
        let table = [
            (Some(3), json!({"memory_id": "m0", "original_outbox_id": 3})),
            (None, json!({"memory_id": "m0"})),
        ];
        for (outbox_id, result) in table {
            let found = KnownMemory {
                outbox_id: outbox_id.map(consign_kernel::MessageId),
                memory_id: None,
            };
            let verdict = deduplicated(&found, &stored);
            assert_eq!(verdict.outcome, Outcome::Delivered);
            assert_eq!(verdict.code.as_deref(), Some(codes::DEDUP_HIT));
            assert_eq!(verdict.result, Some(result));
        }
    }

    #[test]
    fn a_statement_timeout_has_its_own_code() {
        let unavailable = |text: &str| Error::Unavailable {
            attempted: "check_dedup",
            certainty: Certainty::Definite,
            source: text.into(),
        };
        let table = [
            (
                "canceling statement due to statement timeout",
                codes::DB_TIMEOUT,
            ),
            (
                "pool timed out while waiting for an open connection",
                codes::DB_TIMEOUT,
            ),
            ("connection refused", codes::DB_ERROR),
        ];
        for (text, code) in table {
            let verdict = database_failed(&unavailable(text));
            assert_eq!(verdict.code.as_deref(), Some(code), "{text}");
            assert_eq!(verdict.outcome, Outcome::Retry, "nothing was sent");
        }
    }
}
