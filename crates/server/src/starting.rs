//! What a server answers that has no database yet.

use std::time::Duration;

use axum::{
    Json, body,
    extract::Request,
    http::{Method, StatusCode},
    response::{IntoResponse, Response},
};
use consign_memory::Correlation;
use serde_json::Value;

use crate::{
    gate::{agents, body::Bodies},
    mcp,
    problem::{Problem, codes},
    router::refused,
    wire::health::{Alive, Greeting, Health},
};

const RETRY_AFTER: Duration = Duration::from_secs(1);
/// How much of a request is read to answer it under its id: nobody was asked for a token yet.
const BODY_BYTES_MAX: usize = 64 * 1024;
const BODY_WITHIN: Duration = Duration::from_secs(5);
const REASON: &str = "the server waits for its database; its log says why";

/// Answers a request while there is no database: 503 in the shape of the path's contract, and to
/// probes that the process lives. Restarting it would not bring the database.
pub async fn starting(request: Request) -> Response {
    match request.uri().path() {
        "/healthz" => Json(Alive { status: "starting" }).into_response(),
        "/health" => Json(Greeting::STARTING).into_response(),
        "/readyz" => {
            let health = Health {
                status: "not_ready",
                version: env!("CARGO_PKG_VERSION"),
                reasons: vec![REASON.to_owned()],
            };
            (StatusCode::SERVICE_UNAVAILABLE, Json(health)).into_response()
        }
        "/mcp" if request.method() == Method::POST => called(request).await,
        _ => refused(&request, waiting()),
    }
}

fn waiting() -> Problem {
    Problem::new(
        codes::DATABASE_UNAVAILABLE,
        format!("{REASON}; nothing was written"),
    )
    .with("outcome", "not_done")
    .retry_after(RETRY_AFTER)
}

/// A call of the gateway of memories: an error of JSON-RPC where that is spoken, else the plain form.
async fn called(request: Request) -> Response {
    let (parts, body) = request.into_parts();
    // Small bodies need none of it.
    let bodies = Bodies::new(0, 0);
    let read = bodies.read("", body, (BODY_BYTES_MAX, BODY_WITHIN)).await;
    let bytes = read.map(|read| read.bytes).unwrap_or_default();
    let message = serde_json::from_slice::<Value>(&bytes).ok();
    let id = match &message {
        Some(Value::Object(fields)) if mcp::speaks(fields) => fields.get("id").cloned(),
        Some(Value::Object(_)) => {
            return refused(&Request::from_parts(parts, body::Body::empty()), waiting());
        }
        _ => None,
    };
    let correlation = Correlation::new();
    let problem = waiting();
    let body = mcp::unavailable(&problem.detail, id.unwrap_or_default(), &correlation);
    let mut response = problem.with_body(&body);
    agents::name(response.headers_mut(), &correlation);
    response
}
