//! Checks before anything is written.

use std::time::Duration;

use serde_json::{Value, json};

use super::{CountedAnswer, PlaceCall};
use crate::{
    Answer, LedgerEntry, OrderRequest, Reason, Rules, answer::RETRY_AFTER, metrics::Outcome,
};

/// The requested order with its text, or the error.
///
/// In this order: the header must be present, match the key in the body, and every field must be
/// valid.
pub(super) fn request<'c>(
    call: &PlaceCall<'c>,
    rules: &Rules,
) -> Result<(OrderRequest, &'c str), Box<CountedAnswer>> {
    let Some(header_key) = call.header_key else {
        let why = "the header Idempotency-Key is missing";
        return Err(refused(Reason::IdempotencyKeyMissing, why, Value::Null));
    };
    let parsed = OrderRequest::parse(call.body, rules);
    let body_key = match &parsed {
        Ok(request) => Some(request.idempotency_key.as_str()),
        Err(invalid) => invalid.idempotency_key.as_deref(),
    };
    if body_key.is_some_and(|body_key| body_key != header_key) {
        let why = "the header Idempotency-Key and idempotency_key in the body differ";
        return Err(refused(Reason::IdempotencyMismatch, why, Value::Null));
    }
    let invalid = |why: &str, fields: Value| {
        refused(Reason::ValidationError, why, json!({ "fields": fields }))
    };
    let request = parsed.map_err(|bad| invalid(&bad.to_string(), json!(bad.problems)))?;
    let body = std::str::from_utf8(call.body);
    let body = body.map_err(|_| invalid("body is not UTF-8", json!([])))?;
    Ok((request, body))
}

fn refused(reason: Reason, why: &str, more: Value) -> Box<CountedAnswer> {
    let answer = Answer::refused(reason, why, more);
    Box::new(CountedAnswer::refused(answer, Outcome::Validation, reason))
}

/// The key was used with another body before.
pub(super) fn conflict(entry: &LedgerEntry) -> CountedAnswer {
    let reason = Reason::IdempotencyConflict;
    let why = "this key was used with another body before; nothing was sent. Use a new key, or send the \
               same body";
    let key = json!({ "idempotency_key": entry.key.as_str() });
    CountedAnswer::refused(Answer::refused(reason, why, key), Outcome::Conflict, reason)
}

/// The client exceeded a limit.
pub(super) fn too_many(retry_after: Duration, why: &str) -> CountedAnswer {
    let reason = Reason::RateLimited;
    let seconds = retry_after.as_secs_f64().ceil().max(1.0) as u64;
    let answer = Answer::refused(reason, why, json!({ "retry_after": seconds }));
    let answer = answer.with_header(RETRY_AFTER, seconds);
    CountedAnswer::refused(answer, Outcome::RateLimited, reason)
}
