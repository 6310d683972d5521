//! Problems as agents are told them: like everything else that did not go well.

use axum::{http::header, response::Response};
use serde_json::{Map, Value, json};

use super::{Problem, flat_code};

pub(super) fn answer(problem: Problem) -> Response {
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
    // The reference's word for a missing token, and for the rest what HTTP calls it.
    let status = problem.meaning.status.canonical_reason();
    body.insert("detail".into(), json!(status));
    for name in ["outcome", "correlation_id"] {
        if let Some(value) = problem.context.get(name) {
            body.insert(name.into(), value.clone());
        }
    }
    let mut headers = problem.headers.iter();
    let is_retryable = headers.any(|(name, _)| *name == header::RETRY_AFTER);
    body.insert("retryable".into(), is_retryable.into());
    problem.answer("application/json", &Value::Object(body))
}
