//! Adapter between HTTP and the SDK.

use axum::{
    body::{Body, Bytes, HttpBody},
    http::{HeaderValue, Request, StatusCode, header, request::Parts},
    response::Response,
};
use consign_server::apps::json_answer;
use http_body_util::{BodyExt, Full};
use serde_json::{Map, Value};

use super::{Mcp, errors, errors::Reason};
use crate::Correlation;

/// Whether a body is a request of the protocol; otherwise it is the plain form or invalid.
pub(in crate::http) fn is_jsonrpc(body: &Map<String, Value>) -> bool {
    let is_versioned = body.get("jsonrpc").is_some_and(|version| version == "2.0");
    is_versioned && body.contains_key("method")
}

/// The answer to a body that is not JSON.
pub(in crate::http) fn unreadable(message: &str, correlation: &Correlation) -> Response {
    let body = Reason::ParseError.body(message, Value::Null, correlation);
    json_answer(StatusCode::BAD_REQUEST, &body)
}

/// The answer to JSON that is not a request.
pub(in crate::http) fn invalid(message: &str, id: Value, correlation: &Correlation) -> Response {
    let body = Reason::InvalidRequest.body(message, id, correlation);
    json_answer(StatusCode::BAD_REQUEST, &body)
}

/// The answer without a database.
pub(in crate::http) fn unavailable(message: &str, id: Value, correlation: &Correlation) -> Value {
    Reason::LogbookDbUnavailable.body(message, id, correlation)
}

/// A request for the SDK.
struct McpRequest {
    /// The original id, if the SDK gets another.
    id: Option<Value>,
    method: String,
    message: Map<String, Value>,
}

impl Mcp {
    /// Answers a request of the protocol.
    pub(in crate::http) async fn answer(
        &self,
        parts: Parts,
        message: Map<String, Value>,
        correlation: &Correlation,
    ) -> Response {
        let checked = match McpRequest::check(message) {
            Ok(checked) => checked,
            Err((message, id)) => return invalid(message, id, correlation),
        };
        let request = request(parts, &checked.message);
        let response = self.service.handle(request).await;
        finish(response, &checked, correlation).await
    }
}

impl McpRequest {
    fn check(mut message: Map<String, Value>) -> Result<Self, (&'static str, Value)> {
        let id = message.get("id").cloned();
        let kept = match &id {
            None => None,
            Some(Value::String(_)) => None,
            Some(Value::Number(number)) if number.is_i64() => None,
            Some(Value::Null | Value::Number(_)) => id.clone(),
            Some(_) => return Err(("id must be a text or a number", Value::Null)),
        };
        let id = id.unwrap_or_default();
        let Some(method) = message.get("method").and_then(Value::as_str) else {
            return Err(("method must be a text", id));
        };
        let method = method.to_owned();
        match message.get("params") {
            None | Some(Value::Object(_)) => {}
            Some(Value::Null) => drop(message.remove("params")),
            Some(_) => return Err(("params must be an object", id)),
        }
        let params = message.get_mut("params").and_then(Value::as_object_mut);
        if let Some(params) = params
            && params.get("arguments").is_some_and(Value::is_null)
        {
            params.remove("arguments");
        }
        if kept.is_some() {
            message.insert("id".into(), 0.into());
        }
        Ok(Self {
            id: kept,
            method,
            message,
        })
    }
}

/// The request for the SDK. Answers are JSON, so clients need not accept streams.
fn request(mut parts: Parts, message: &Map<String, Value>) -> Request<Full<Bytes>> {
    let headers = &mut parts.headers;
    let accept = HeaderValue::from_static("application/json, text/event-stream");
    headers.insert(header::ACCEPT, accept);
    let json = HeaderValue::from_static("application/json");
    headers.insert(header::CONTENT_TYPE, json);
    headers.remove(header::CONTENT_LENGTH);
    let body = serde_json::to_vec(message).expect("invariant: JSON was read from JSON");
    Request::from_parts(parts, Full::new(Bytes::from(body)))
}

async fn finish<B>(
    response: Response<B>,
    checked: &McpRequest,
    correlation: &Correlation,
) -> Response
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    let (parts, body) = response.into_parts();
    let kind = parts.headers.get(header::CONTENT_TYPE);
    let is_json = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    let is_refusal = parts.status.is_client_error() || parts.status.is_server_error();
    if !is_json && !is_refusal {
        return Response::from_parts(parts, Body::new(body));
    }
    let bytes = match body.collect().await {
        Ok(whole) => whole.to_bytes(),
        Err(_) => Bytes::new(),
    };
    let mut status = parts.status;
    let id = || checked.message.get("id").cloned().unwrap_or_default();
    let mut answer = match serde_json::from_slice::<Value>(&bytes) {
        Ok(answer @ Value::Object(_)) => answer,
        // The SDK rejects unreadable requests in plain text.
        _ if status.is_server_error() => Reason::InternalError.body("", id(), correlation),
        _ => {
            status = StatusCode::BAD_REQUEST;
            let why = String::from_utf8_lossy(&bytes);
            Reason::InvalidRequest.body(&why, id(), correlation)
        }
    };
    if let Some(id) = &checked.id {
        answer["id"] = id.clone();
    }
    if let Some(Value::Object(error)) = answer.get_mut("error") {
        errors::complete(error, &checked.method, correlation);
    }
    json_answer(status, &answer)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn checked(message: Value) -> Result<McpRequest, (&'static str, Value)> {
        let Value::Object(message) = message else {
            panic!("an object")
        };
        McpRequest::check(message)
    }

    #[test]
    fn ids_that_the_sdk_rejects_are_kept_for_the_answer() {
        for (id, kept) in [
            (json!(7), None),
            (json!("abc"), None),
            (json!(null), Some(json!(null))),
            (json!(1.5), Some(json!(1.5))),
            (json!(u64::MAX), Some(json!(u64::MAX))),
        ] {
            let checked = checked(json!({"jsonrpc": "2.0", "method": "ping", "id": id})).unwrap();
            assert_eq!(checked.id, kept);
        }
        for id in [json!(true), json!([1]), json!({})] {
            assert!(checked(json!({"jsonrpc": "2.0", "method": "ping", "id": id})).is_err());
        }
    }

    #[test]
    fn a_notification_stays_one() {
        let checked = checked(json!({"jsonrpc": "2.0", "method": "notifications/x"})).unwrap();
        assert_eq!((checked.id, checked.message.get("id")), (None, None));
    }
}
