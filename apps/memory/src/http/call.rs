//! The endpoint `/mcp` for the protocol and the plain form.

use std::sync::Arc;

use axum::{
    Extension,
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, HeaderName, StatusCode, request::Parts},
    response::Response,
};
use consign_server::apps::{
    Caller, GateState, Problem, check_type, check_values, internal, json_answer,
};
use serde_json::{Map, Value, json};

use super::{Gateway, MemoryHttp, agent::Agent, errors::refused, mcp};
use crate::{
    Correlation,
    tools::{ArgumentFault, ToolArguments},
};

const ASKED_METHOD: HeaderName = HeaderName::from_static("access-control-request-method");

/// Call the memory gateway
///
/// The Model Context Protocol over HTTP, in all its versions and without sessions: those up to
/// 2025-11-25 with `initialize`, 2026-07-28 without. Notifications are answered 202. Errors carry
/// `data` with `category`, `reason`, `retryable`, `correlation_id` and `details`. A body `{"tool",
/// "arguments"}` calls a tool without the protocol and is answered `{"ok", "result", "error",
/// "correlation_id"}`. A tool's failure is not an error of the protocol: see its `ok`.
#[utoipa::path(
    post, path = "/mcp", operation_id = "mcp", tag = "memory",
    params(
        ("MCP-Protocol-Version" = Option<String>, Header, description = "See the protocol"),
    ),
    request_body = Object,
    responses(
        (status = 200, description = "An answer, or an error of the protocol", body = Object),
        (status = 202, description = "A notification was accepted"),
    ),
)]
pub(super) async fn call(
    State(http): State<MemoryHttp>,
    Extension(caller): Extension<Caller>,
    Extension(correlation): Extension<Correlation>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let called = answered(&http, &caller, &correlation, (parts, body)).await;
    called.unwrap_or_else(|problem| refused(problem, &correlation))
}

async fn answered(
    http: &MemoryHttp,
    caller: &Caller,
    correlation: &Correlation,
    (mut parts, body): (Parts, Body),
) -> Result<Response, Problem> {
    let gateway = http.gateway()?;
    check_type(&parts.headers, "application/json")?;
    let bytes = axum::body::to_bytes(body, usize::MAX).await;
    let bytes = bytes.map_err(|error| internal(error.to_string()))?;
    check_values(&bytes)?;
    let body = match serde_json::from_slice::<Value>(&bytes) {
        Ok(body) => body,
        Err(error) => return Ok(mcp::unreadable(&error.to_string(), correlation)),
    };
    let text = std::str::from_utf8(&bytes).unwrap_or_default();
    let fault = mcp::argument_fault(text);
    match body {
        Value::Object(message) if mcp::is_jsonrpc(&message) => {
            match fault {
                Ok(Some(fault)) => drop(parts.extensions.insert(fault)),
                Ok(None) => {}
                Err(why) => {
                    let id = message.get("id").cloned().unwrap_or_default();
                    return Ok(mcp::invalid(&why, id, correlation));
                }
            }
            Ok(gateway.mcp.answer(parts, message, correlation).await)
        }
        Value::Object(fields) => {
            let fault = fault.map_err(|why| malformed(&format!("is unreadable: {why}")))?;
            let answer = plainly(gateway, (fields, fault), caller, correlation).await?;
            Ok(json_answer(StatusCode::OK, &answer))
        }
        _ => Err(malformed("must be an object")),
    }
}

/// The plain form: a tool and its arguments.
async fn plainly(
    gateway: &Gateway,
    (mut fields, fault): (Map<String, Value>, Option<ArgumentFault>),
    caller: &Caller,
    correlation: &Correlation,
) -> Result<Value, Problem> {
    let Some(Value::String(tool)) = fields.remove("tool") else {
        return Err(malformed("has no name of a tool"));
    };
    let arguments = match fields.remove("arguments") {
        None => Value::Object(Map::new()),
        Some(arguments @ Value::Object(_)) => arguments,
        Some(_) => return Err(malformed("has arguments that are not an object")),
    };
    let arguments = ToolArguments {
        value: arguments,
        fault,
    };
    let agent = Agent::of(caller);
    let called = agent.call(&gateway.service, &tool, arguments, correlation);
    let answer = called.await;
    let error = if answer.ok {
        Value::Null
    } else {
        json!(answer.message().or(answer.error_code()))
    };
    let mut details = json!({
        "ok": answer.ok, "result": answer.body, "error": error, "correlation_id": correlation,
    });
    if !answer.ok {
        details["success"] = json!(false);
    }
    Ok(details)
}

fn malformed(why: &str) -> Problem {
    let forms = "send {\"tool\", \"arguments\"}, or JSON-RPC 2.0 with a method";
    Problem::invalid("body", &format!("{why}; {forms}"))
}

/// Preflight request of a web page
#[utoipa::path(
    options, path = "/mcp", operation_id = "mcp_options", tag = "memory",
    responses(
        (status = 200, description = "It may"),
        (status = 204, description = "The page may call: the preflight of a browser"),
    ),
)]
pub(super) async fn preflight(
    Extension(shared): Extension<Arc<GateState>>,
    Extension(correlation): Extension<Correlation>,
    headers: HeaderMap,
) -> Response {
    if let Err(problem) = shared.check_origin(&headers) {
        return refused(problem, &correlation);
    }
    let mut response = Response::new(Body::empty());
    if headers.contains_key(ASKED_METHOD) {
        *response.status_mut() = StatusCode::NO_CONTENT;
    }
    response
}
