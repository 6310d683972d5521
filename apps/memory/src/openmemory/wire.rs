//! Requests and answers.

use std::time::Duration;

use consign_outbound::{WatchedBody, causes, retry_after};
use jiff::Timestamp;
use reqwest::{Body, Method, Request, Response, StatusCode, Url, header};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::{Answer, OpenMemory};
use crate::{BackendError, redact};

/// No answer of these servers is near it.
const ANSWER_BYTES_MAX: usize = 32 << 20;
/// Longest part of an answer that errors repeat.
const SAID_CHARS_MAX: usize = 200;

/// An address without what may be secret in it.
pub(super) fn plain(url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}"));
    let host = url.host_str().unwrap_or_default();
    let path = url.path().trim_end_matches('/');
    format!(
        "{}://{host}{}{path}",
        url.scheme(),
        port.unwrap_or_default()
    )
}

impl OpenMemory {
    /// The address of a path; `segments` are escaped.
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

    /// Sends one request and reads its answer. What was not sent for certain is `Unreachable`; what
    /// was sent and not answered is `Unknown`.
    pub(super) async fn call(
        &self,
        method: Method,
        url: Url,
        body: Option<&Value>,
        ends: Instant,
    ) -> Answer<Value> {
        let mut request = Request::new(method, url);
        request.headers_mut().extend(self.fixed.clone());
        let mut begun = None;
        if let Some(body) = body {
            let json = header::HeaderValue::from_static("application/json");
            request.headers_mut().insert(header::CONTENT_TYPE, json);
            let bytes = serde_json::to_vec(body).expect("invariant: a value is JSON");
            let (body, has_begun) = WatchedBody::new(bytes);
            *request.body_mut() = Some(Body::wrap(body));
            begun = Some(has_begun);
        }
        let failure = |why: String| match &begun {
            Some(begun) if begun.get() => BackendError::Unknown(why),
            _ => BackendError::Unreachable(why),
        };
        match timeout_at(ends, self.client.execute(request)).await {
            Ok(Ok(response)) => read(response, ends).await,
            Ok(Err(error)) => Err(failure(causes(&error.without_url()))),
            Err(_) => Err(failure("no answer in time".into())),
        }
    }
}

async fn read(response: Response, ends: Instant) -> Answer<Value> {
    let status = response.status();
    let waits = retry_after(response.headers(), Timestamp::now());
    let mut response = response;
    let mut bytes = Vec::new();
    loop {
        match timeout_at(ends, response.chunk()).await {
            Ok(Ok(Some(chunk))) if bytes.len() + chunk.len() <= ANSWER_BYTES_MAX => {
                bytes.extend_from_slice(&chunk);
            }
            Ok(Ok(Some(_))) => {
                let why = format!("its answer is over {ANSWER_BYTES_MAX} bytes");
                return Err(BackendError::Protocol(why));
            }
            Ok(Ok(None)) => break,
            Ok(Err(error)) => return Err(BackendError::Unknown(causes(&error.without_url()))),
            Err(_) => {
                return Err(BackendError::Unknown(
                    "its answer did not end in time".into(),
                ));
            }
        }
    }
    let json: Option<Value> = serde_json::from_slice(&bytes).ok();
    if status.is_success() {
        let not_json = || BackendError::Protocol(format!("answered {status} without JSON"));
        return json.ok_or_else(not_json);
    }
    let said = said(status, json.as_ref(), &bytes);
    Err(BackendError::Api {
        status: status.as_u16(),
        retry_in: waits.or_else(|| {
            let seconds = json.as_ref()?.get("retry_after")?.as_f64()?;
            Duration::try_from_secs_f64(seconds).ok()
        }),
        message: said,
    })
}

/// What an error says, in the words of whichever dialect.
fn said(status: StatusCode, json: Option<&Value>, bytes: &[u8]) -> String {
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
    redact::text(&text).chars().take(SAID_CHARS_MAX).collect()
}
