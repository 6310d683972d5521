//! A proxy between a client and its gateway that changes answers.

use std::net::SocketAddr;

use axum::{
    Router,
    body::Bytes,
    http::{HeaderMap, Method, StatusCode, Uri},
    response::Response,
};
use serde_json::Value;
use tokio::{net::TcpListener, task::JoinHandle};

use crate::http;

/// What a request said and what it was answered, to be changed: path, request, status, answer.
pub(super) type Rewrite = fn(&str, &Value, &mut u16, &mut Value);

/// Listens, asks the gateway, and meddles with the answer.
pub(super) struct RewritingProxy {
    pub(super) address: SocketAddr,
    task: JoinHandle<()>,
}

impl RewritingProxy {
    pub(super) async fn before(gateway: SocketAddr, meddle: Rewrite) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let pass = move |method: Method, uri: Uri, headers: HeaderMap, body: Bytes| async move {
            pass(gateway, meddle, (method, uri, headers, body)).await
        };
        let router = Router::new().fallback(pass);
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, task }
    }
}

impl Drop for RewritingProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass(
    gateway: SocketAddr,
    meddle: Rewrite,
    (method, uri, headers, body): (Method, Uri, HeaderMap, Bytes),
) -> Response<String> {
    let body = String::from_utf8(body.to_vec()).unwrap();
    let mut head = format!(
        "{method} {uri} HTTP/1.1\r\ncontent-length: {}\r\n",
        body.len()
    );
    for name in [
        "content-type",
        "authorization",
        "access-control-request-method",
    ] {
        if let Some(value) = headers.get(name) {
            head.push_str(&format!("{name}: {}\r\n", value.to_str().unwrap()));
        }
    }
    let answer = http::send(gateway, &head, &body).await.unwrap();
    let asked = serde_json::from_str(&body).unwrap_or_default();
    let mut told = serde_json::from_str(&answer.body).unwrap_or_default();
    let mut status = answer.status;
    meddle(uri.path(), &asked, &mut status, &mut told);
    let mut response = Response::builder()
        .status(StatusCode::from_u16(status).unwrap())
        .header("content-type", "application/json");
    // What the answer says about its name is what the header says, or a lie would be found too soon.
    let named = told["correlation_id"].as_str().map(str::to_owned);
    let named = named.or_else(|| answer.header("x-correlation-id").map(str::to_owned));
    if let Some(named) = named {
        response = response.header("x-correlation-id", named);
    }
    let text = match &told {
        Value::Null => String::new(),
        told => told.to_string(),
    };
    response.body(text).unwrap()
}
