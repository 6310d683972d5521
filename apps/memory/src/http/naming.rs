//! Correlation ids of requests and answers.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, header},
    middleware::Next,
    response::Response,
};
use consign_server::apps::{GateState, ProblemFacts};
use serde_json::Map;

use crate::Correlation;

/// Header with the correlation id; the body has the same.
const CORRELATION_HEADER: HeaderName = HeaderName::from_static("x-correlation-id");

/// Assigns every request a correlation id, and sets the headers for web pages.
pub(super) async fn named(
    State(shared): State<Arc<GateState>>,
    mut request: Request,
    next: Next,
) -> Response {
    let correlation = Correlation::new();
    let mut facts = Map::new();
    facts.insert("correlation_id".into(), correlation.as_str().into());
    request.extensions_mut().insert(ProblemFacts(facts));
    request.extensions_mut().insert(correlation.clone());
    let shares = request.uri().path() == "/mcp" && shared.admits_origin(request.headers());
    let is_options = request.method() == Method::OPTIONS;
    let wanted = request.headers().get("access-control-request-headers");
    let wanted = wanted.filter(|_| is_options).cloned();
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    name(headers, &correlation);
    if shares {
        share(headers, wanted.as_ref());
    }
    response
}

/// Sets the correlation id of an answer.
pub(super) fn name(headers: &mut HeaderMap, correlation: &Correlation) {
    let value = HeaderValue::from_str(correlation.as_str());
    let value = value.expect("invariant: letters, digits and a dash");
    headers.insert(CORRELATION_HEADER, value);
}

/// Allows calls from web pages: without cookies, any page with a token may call.
fn share(headers: &mut HeaderMap, wanted: Option<&HeaderValue>) {
    const ALLOWED: [&str; 6] = [
        "Content-Type",
        "Authorization",
        "Mcp-Session-Id",
        "MCP-Protocol-Version",
        "Mcp-Method",
        "Mcp-Name",
    ];
    let mut allowed: Vec<&str> = ALLOWED.to_vec();
    let wanted = wanted.and_then(|wanted| wanted.to_str().ok());
    for name in wanted.into_iter().flat_map(|wanted| wanted.split(',')) {
        let name = name.trim();
        let is_known = allowed.iter().any(|known| known.eq_ignore_ascii_case(name));
        if !name.is_empty() && !is_known {
            allowed.push(name);
        }
    }
    let texts = [
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*".to_owned()),
        (
            header::ACCESS_CONTROL_ALLOW_METHODS,
            "POST, OPTIONS".to_owned(),
        ),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, allowed.join(", ")),
        (
            header::ACCESS_CONTROL_EXPOSE_HEADERS,
            "Mcp-Session-Id, X-Correlation-ID".to_owned(),
        ),
        (header::ACCESS_CONTROL_MAX_AGE, "86400".to_owned()),
    ];
    for (name, text) in texts {
        if let Ok(value) = HeaderValue::from_str(&text) {
            headers.insert(name, value);
        }
    }
}
