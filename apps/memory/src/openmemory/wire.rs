//! HTTP requests and answers.

use std::time::Duration;

use consign_outbound::{ReadError, ReadLimit, read_body, retry_after, send};
use jiff::Timestamp;
use reqwest::{Method, Request, Response, StatusCode, Url, header};
use serde_json::Value;
use tokio::time::Instant;

use super::{Answer, OpenMemory};
use crate::{BackendError, redact};

/// Far above any answer of these servers.
const ANSWER_BYTES_MAX: usize = 32 << 20;
/// Longest part of an answer that errors quote.
const QUOTE_CHARS_MAX: usize = 200;

impl OpenMemory {
    /// The address of a path; segments are percent-encoded.
    pub(super) fn at(&self, segments: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        url
    }

    pub(super) async fn get(&self, url: Url, ends: Instant) -> Answer<Value> {
        self.call(Method::GET, url, None, ends).await
    }

    pub(super) async fn post(&self, path: &[&str], body: &Value, ends: Instant) -> Answer<Value> {
        self.call(Method::POST, self.at(path), Some(body), ends)
            .await
    }

    /// Sends a request and reads its answer. Fails with `Unreachable` if nothing was sent for certain, and
    /// with `Unknown` if it was sent and not answered.
    pub(super) async fn call(
        &self,
        method: Method,
        url: Url,
        body: Option<&Value>,
        ends: Instant,
    ) -> Answer<Value> {
        let mut request = Request::new(method, url);
        request.headers_mut().extend(self.fixed.clone());
        let body = body.map(|body| serde_json::to_vec(body).expect("invariant: a value is JSON"));
        if body.is_some() {
            let json = header::HeaderValue::from_static("application/json");
            request.headers_mut().insert(header::CONTENT_TYPE, json);
        }
        match send(&self.client, request, body, ends).await {
            Ok(response) => read(response, ends).await,
            Err(error) if error.was_sent() => Err(BackendError::Unknown(error.to_string())),
            Err(error) => Err(BackendError::Unreachable(error.to_string())),
        }
    }
}

async fn read(response: Response, ends: Instant) -> Answer<Value> {
    let status = response.status();
    let waits = retry_after(response.headers(), Timestamp::now());
    let bytes = read_body(response, ANSWER_BYTES_MAX, ReadLimit::Until(ends)).await;
    let bytes = bytes.complete().map_err(|error| match error {
        ReadError::TooLong { .. } => BackendError::Protocol(error.to_string()),
        _ => BackendError::Unknown(error.to_string()),
    })?;
    let json: Option<Value> = serde_json::from_slice(&bytes).ok();
    if status.is_success() {
        let not_json = || BackendError::Protocol(format!("answered {status} without JSON"));
        return json.ok_or_else(not_json);
    }
    let message = error_message(status, json.as_ref(), &bytes);
    Err(BackendError::Api {
        status: status.as_u16(),
        retry_in: waits.or_else(|| {
            let seconds = json.as_ref()?.get("retry_after")?.as_f64()?;
            Duration::try_from_secs_f64(seconds).ok()
        }),
        message,
    })
}

/// The error text, in the field of whichever dialect.
fn error_message(status: StatusCode, json: Option<&Value>, bytes: &[u8]) -> String {
    let field = |name: &str| match json?.get(name)? {
        Value::String(text) => Some(text.clone()),
        Value::Null => None,
        other => Some(other.to_string()),
    };
    let text = ["message", "err", "error", "detail"]
        .into_iter()
        .find_map(field)
        .unwrap_or_else(|| String::from_utf8_lossy(bytes).into_owned());
    let text = match text.trim() {
        "" => status.canonical_reason().unwrap_or("no reason").to_owned(),
        text => text.to_owned(),
    };
    redact::text(&text).chars().take(QUOTE_CHARS_MAX).collect()
}
