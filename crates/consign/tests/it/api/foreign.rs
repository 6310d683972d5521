//! Requests of strangers: whatever headers, paths and bodies come, they are answered, and nothing panics.

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, Request},
};
use consign_server::{
    Scope, ServerOptions, Token, TokenEntry,
    testing::{Bench, LOCAL, peer},
};
use proptest::{prelude::*, sample::select, test_runner::TestRunner};
use tower::ServiceExt as _;

use super::sqlite;

/// The headers that something here reads.
const NAMES: [&str; 25] = [
    "host",
    "authorization",
    "content-type",
    "content-encoding",
    "content-length",
    "cookie",
    "origin",
    "prefer",
    "accept",
    "idempotency-key",
    "x-consign-actor",
    "x-tenant-id",
    "x-client-id",
    "x-forwarded-for",
    "forwarded",
    "via",
    "sec-fetch-site",
    "sec-fetch-mode",
    "traceparent",
    "mcp-session-id",
    "mcp-protocol-version",
    "last-event-id",
    "if-none-match",
    "range",
    "access-control-request-headers",
];
/// Values that mean something to some of them, and parts of such.
const VALUES: [&str; 28] = [
    "localhost:8787",
    "127.0.0.1",
    "[::1]:1",
    "Bearer ",
    "Bearer secret",
    "Basic eDp5",
    "application/json",
    "text/html",
    "application/x-www-form-urlencoded",
    "identity",
    "gzip",
    "http://localhost:1",
    "https://evil.example",
    "null",
    "wait=1",
    "wait=\"9999999999999999999999\"",
    "respond-async; wait",
    "consign_session_=v1.a.1.b.c",
    "consign_visitor_x=v1..9.0.0",
    "order-0001",
    "00000000-0000-4000-8000-000000000000",
    "same-origin",
    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "2025-06-18",
    "\"a\", W/\"b\"",
    "bytes=0-",
    ";;,,==",
    "\"",
];
const PATHS: [&str; 28] = [
    "/",
    "/v1/messages",
    "/v1/messages/1",
    "/v1/messages?limit=-1&cursor=%00",
    "/v1/queues/mail/messages",
    "/v1/queues/%2e%2e/messages",
    "/v1/queues/%ff",
    "/v1/queues/mail/pause",
    "/v1/claims",
    "/v1/leases/x/settle",
    "/v1/leases/00000000-0000-4000-8000-000000000000/settle",
    "/do/order",
    "/do/order/order-0001",
    "/v1/payments",
    "/v1/payments/claims",
    "/v1/redrives",
    "/v1/schedules/daily",
    "/v1/schedules/daily/run",
    "/v1/audit?limit=x",
    "/mcp",
    "/memory/store",
    "/memory/query",
    "/ui/login",
    "/ui/messages?q=%zz",
    "/ui/audit/export?format=%00",
    "/ui/queues/mail",
    "/metrics",
    "/readyz",
];
/// Parts that bodies are made of, and parts that break them.
const PARTS: [&str; 32] = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"payload\":",
    "\"messages\":",
    "\"queue\":",
    "\"mail\"",
    "\"owner\":",
    "\"limit\":",
    "\"reports\":",
    "\"id\":",
    "\"outcome\":",
    "\"delivered\"",
    "\"result\":",
    "\"jsonrpc\":\"2.0\"",
    "\"method\":\"tools/call\"",
    "\"params\":",
    "\"tool\":\"memory_store\"",
    "\"arguments\":",
    "1",
    "-1",
    "1e999",
    "\"\\u0000\"",
    "null",
    "csrf=x&token=%zz",
    "\u{0}",
    "é",
    "[[[[[[[[[[[[",
    "\"headers\":{\"a\":1}",
];

#[derive(Clone, Debug)]
struct ForeignRequest {
    method: &'static str,
    path: String,
    headers: Vec<(&'static str, Vec<u8>)>,
    body: String,
}

fn asked() -> impl Strategy<Value = ForeignRequest> {
    let value = prop_oneof![
        6 => select(&VALUES[..]).prop_map(|text| text.as_bytes().to_vec()),
        1 => proptest::collection::vec(prop_oneof![0x20_u8..0x7f, 0x80_u8..=0xff], 0..40),
    ];
    let headers = proptest::collection::vec((select(&NAMES[..]), value), 0..6);
    let path = prop_oneof![
        8 => select(&PATHS[..]).prop_map(str::to_owned),
        1 => "/[a-z0-9%/._?=&-]{0,40}",
    ];
    let part = prop_oneof![
        8 => select(&PARTS[..]).prop_map(str::to_owned),
        1 => any::<String>(),
    ];
    let body = proptest::collection::vec(part, 0..20).prop_map(|parts| parts.concat());
    let method = select(vec![
        "GET", "POST", "PUT", "PATCH", "OPTIONS", "DELETE", "HEAD",
    ]);
    (method, path, headers, body).prop_map(|(method, path, headers, body)| ForeignRequest {
        method,
        path,
        headers,
        body,
    })
}

/// Answers with the status; none if it is no request at all.
async fn status(bench: &Bench, asked: &ForeignRequest) -> Option<u16> {
    let request = Request::builder().method(asked.method).uri(&asked.path);
    let mut request = request.body(Body::from(asked.body.clone())).ok()?;
    let headers = request.headers_mut();
    headers.insert("host", HeaderValue::from_static("localhost"));
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    for (name, value) in &asked.headers {
        let value = HeaderValue::from_bytes(value).ok()?;
        headers.insert(HeaderName::from_static(name), value);
    }
    request.extensions_mut().insert(peer(LOCAL));
    let response = bench.router.clone().oneshot(request).await.unwrap();
    Some(response.status().as_u16())
}

#[test]
fn every_request_is_answered_without_a_failure() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let open = runtime.block_on(sqlite());
    let closed = runtime.block_on(sqlite()).with_options(&ServerOptions {
        tokens: vec![TokenEntry {
            name: "shop".into(),
            hash: Token::new("secret").hash(),
            scopes: Scope::ALL.into(),
        }],
        ..ServerOptions::default()
    });
    let answered = TestRunner::default().run(&asked(), |asked| {
        for bench in [&open, &closed] {
            let status = runtime.block_on(status(bench, &asked));
            prop_assert_ne!(status, Some(500), "{:?}", asked);
        }
        Ok(())
    });
    answered.unwrap();
}
