//! The HTTP client of the demo's traffic.

use std::time::Duration;

use anyhow::{Result, anyhow};
use reqwest::{Client, RequestBuilder, StatusCode};
use serde_json::Value;

/// No answer takes longer, a claim that waits included.
const ANSWER_MAX: Duration = Duration::from_secs(20);

/// A request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    pub(crate) path: String,
    pub(crate) body: Value,
    /// For the header, where a route needs it there.
    pub(crate) key: Option<String>,
}

impl Call {
    pub(crate) fn new(path: impl Into<String>, body: Value) -> Self {
        Self {
            path: path.into(),
            body,
            key: None,
        }
    }
}

/// A client of the service.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    client: Client,
    url: String,
}

impl Caller {
    pub(crate) fn new(url: &str) -> Result<Self> {
        let built = consign_outbound::client(None)
            .map_err(|error| error.to_string())
            .and_then(|builder| {
                let built = builder.timeout(ANSWER_MAX).build();
                built.map_err(|error| error.to_string())
            });
        let client = built.map_err(|error| anyhow!("no HTTP client: {error}"))?;
        let url = url.trim_end_matches('/').to_owned();
        Ok(Self { client, url })
    }

    /// The service's answer; none where it is empty or unexpected.
    pub(crate) async fn post(&self, call: &Call) -> Option<Value> {
        let mut request = self
            .client
            .post(format!("{}{}", self.url, call.path))
            .header("content-type", "application/json")
            .body(call.body.to_string());
        if let Some(key) = &call.key {
            request = request.header("idempotency-key", key);
        }
        answer(&call.path, request).await
    }

    /// The same for what is only looked at.
    pub(crate) async fn get(&self, path: &str) -> Option<Value> {
        let request = self.client.get(format!("{}{path}", self.url));
        answer(path, request).await
    }
}

/// A service that is ending has no time for us. Any other refusal is a mistake of the demo.
async fn answer(path: &str, request: RequestBuilder) -> Option<Value> {
    let answer = request.send().await.ok()?;
    let status = answer.status();
    let body = answer.text().await.ok()?;
    if !status.is_success() && status != StatusCode::SERVICE_UNAVAILABLE {
        eprintln!("{path} was answered with {status}: {body}");
    }
    serde_json::from_str(&body)
        .ok()
        .filter(|_| status.is_success())
}
