//! Problems in the error shape of the gateway.

use axum::response::Response;
use consign_server::apps::{Problem, flat_code};
use serde_json::{Map, Value, json};

use super::naming;
use crate::Correlation;

/// `{"ok": false, "error", "error_code", "correlation_id"}` and more.
pub(super) fn answer(problem: Problem) -> Response {
    // At a path without a route, no correlation id was assigned yet.
    let known = problem.fact("correlation_id").and_then(Value::as_str);
    let correlation = known.and_then(Correlation::parse);
    let correlation = correlation.unwrap_or_else(Correlation::new);
    let mut body = Map::new();
    body.insert("ok".into(), false.into());
    body.insert("success".into(), false.into());
    let action = if problem.meaning.status.is_server_error() {
        "error"
    } else {
        "reject"
    };
    body.insert("action".into(), action.into());
    body.insert("error".into(), problem.detail.clone().into());
    body.insert("error_code".into(), flat_code(problem.meaning).into());
    // The reference's word for a missing token, otherwise the HTTP reason phrase.
    let status = problem.meaning.status.canonical_reason();
    body.insert("detail".into(), json!(status));
    if let Some(outcome) = problem.fact("outcome") {
        body.insert("outcome".into(), outcome.clone());
    }
    body.insert("correlation_id".into(), correlation.as_str().into());
    body.insert("retryable".into(), problem.is_retryable().into());
    let mut response = problem.with_body(&Value::Object(body));
    naming::name(response.headers_mut(), &correlation);
    response
}

/// The same for a request with a correlation id.
pub(super) fn refused(problem: Problem, correlation: &Correlation) -> Response {
    answer(problem.with("correlation_id", correlation.as_str()))
}
