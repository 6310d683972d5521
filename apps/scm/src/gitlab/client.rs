//! HTTP requests to a GitLab server.

use std::time::Duration;

use consign_outbound::{
    ReadError, ReadLimit, SendError, build, read_body, retry_after, send, sensitive, shown_url,
};
use jiff::Timestamp;
use reqwest::{
    Method, Request, StatusCode, Url,
    header::{ACCEPT, HeaderMap, HeaderValue, LOCATION},
};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::address::Address;
use crate::{Retry, ScmError, Secret, SourceOptions};

/// Far more than a page of a hundred commits with long messages.
const ANSWER_BYTES_MAX: usize = 32 << 20;
/// Maximum part of an answer in errors.
const MESSAGE_CHARS_MAX: usize = 200;
/// Longer waits end the run; the next run continues.
const WAIT_MAX: Duration = Duration::from_secs(600);
/// Default wait if the server gives none.
const WAIT_DEFAULT: Duration = Duration::from_secs(30);
/// Maximum waits of one request.
const WAITS_MAX: u32 = 10;
/// A renamed project is answered with a redirect.
const REDIRECTS_MAX: u32 = 3;

/// A page of an answer.
#[derive(Debug)]
pub(super) struct Page<T> {
    /// Content.
    pub(super) body: T,
    /// Whether the server announces another page.
    pub(super) has_next: bool,
    /// Total of all pages, if the server sends it.
    pub(super) total: Option<u64>,
}

/// Result of a request.
enum Answer<T> {
    Page(Page<T>),
    /// Too many requests: retry after this time.
    Wait(Duration),
    Moved(Url),
}

/// Client for one project.
#[derive(Debug)]
pub(super) struct Client {
    http: reqwest::Client,
    address: Address,
    name: String,
    secret: Option<Secret>,
    token: Option<HeaderValue>,
    silence_max: Duration,
    retry: Retry,
}

impl Client {
    pub(super) fn new(url: &str, options: &SourceOptions) -> Result<Self, ScmError> {
        let address = Address::parse(url)?;
        let secret = options.credential.as_ref().map(|it| it.secret.clone());
        let token = secret.as_ref().map(|secret| sensitive(secret.reveal()));
        let token = token.transpose().map_err(|_| {
            ScmError::Invalid(
                "the token for GitLab has a character that a header cannot carry".into(),
            )
        })?;
        options.reach.check_literal(url, &address.at(&[]))?;
        let invalid = |error: String| ScmError::Invalid(format!("ca_file {error}"));
        let http = consign_outbound::client(options.ca_file.as_deref())
            .map_err(|error| invalid(error.to_string()))?
            .dns_resolver(options.reach.allowed.clone().resolver())
            .connect_timeout(options.silence_max);
        Ok(Self {
            http: build(http).map_err(invalid)?,
            address,
            name: url.trim_end_matches('/').to_owned(),
            secret,
            token,
            silence_max: options.silence_max,
            retry: options.retry.clone(),
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The URL of a resource of the project.
    pub(super) fn at(&self, segments: &[&str], query: &[(&str, &str)]) -> Url {
        let mut url = self.address.at(segments);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        url
    }

    /// Sends a request, with retries after network failures.
    pub(super) async fn get<T: DeserializeOwned>(&self, url: &Url) -> Result<Page<T>, ScmError> {
        self.follow(url, &self.retry).await
    }

    /// Sends a request once; the caller retries network failures.
    pub(super) async fn get_once<T: DeserializeOwned>(
        &self,
        url: &Url,
    ) -> Result<Page<T>, ScmError> {
        let once = Retry {
            tries_max: 1,
            ..self.retry.clone()
        };
        self.follow(url, &once).await
    }

    async fn follow<T: DeserializeOwned>(
        &self,
        url: &Url,
        retry: &Retry,
    ) -> Result<Page<T>, ScmError> {
        let mut url = url.clone();
        let (mut waits, mut redirects) = (0, 0);
        loop {
            match retry.run(async || self.request(&url).await).await? {
                Answer::Page(page) => return Ok(page),
                Answer::Wait(wait) => self.wait(wait, &mut waits).await?,
                Answer::Moved(to) => {
                    redirects += 1;
                    let same = to.origin() == url.origin();
                    if !same || redirects > REDIRECTS_MAX {
                        let what = format!(
                            "redirects to {}, to which the token is not sent",
                            shown(&to)
                        );
                        return Err(self.strange(&url, what));
                    }
                    url = to;
                }
            }
        }
    }

    async fn wait(&self, wait: Duration, waits: &mut u32) -> Result<(), ScmError> {
        *waits += 1;
        if wait > WAIT_MAX || *waits > WAITS_MAX {
            let seconds = wait.as_secs();
            let detail = format!("too many requests (429): retry after {seconds} seconds");
            return Err(ScmError::Network {
                source_name: self.name.clone(),
                tries: *waits,
                detail,
            });
        }
        (self.retry.wait)(wait).await;
        Ok(())
    }

    /// The same, with `None` for a missing resource.
    pub(super) async fn find<T: DeserializeOwned>(&self, url: &Url) -> Result<Option<T>, ScmError> {
        match self.get(url).await {
            Ok(page) => Ok(Some(page.body)),
            Err(ScmError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A protocol error at a URL.
    pub(super) fn strange(&self, url: &Url, what: impl std::fmt::Display) -> ScmError {
        ScmError::Protocol {
            source_name: self.name.clone(),
            detail: format!("GET {}: {what}", shown(url)),
        }
    }

    async fn request<T: DeserializeOwned>(&self, url: &Url) -> Result<Answer<T>, ScmError> {
        let mut request = Request::new(Method::GET, url.clone());
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(token) = &self.token {
            headers.insert("private-token", token.clone());
        }
        let ends = Instant::now() + self.silence_max;
        let response = send(&self.http, request, None, ends).await;
        let response = response.map_err(|error| match error {
            SendError::Broken { .. } => self.unreachable(error.to_string()),
            SendError::TimedOut { .. } => self.unreachable(format!("GET {}: {error}", shown(url))),
        })?;
        let (status, headers) = (response.status(), response.headers().clone());
        if status == StatusCode::TOO_MANY_REQUESTS {
            return Ok(Answer::Wait(requested_wait(&headers, Timestamp::now())));
        }
        if status.is_redirection() {
            let place = headers.get(LOCATION).and_then(|place| place.to_str().ok());
            let place = place.and_then(|place| url.join(place).ok());
            let nowhere = || self.strange(url, format!("answered {status} without a location"));
            return place.map(Answer::Moved).ok_or_else(nowhere);
        }
        let limit = ReadLimit::Silence(self.silence_max);
        let bytes = read_body(response, ANSWER_BYTES_MAX, limit).await;
        let bytes = bytes.complete().map_err(|error| match error {
            ReadError::TooLong { .. } => self.strange(url, error),
            _ => self.unreachable(format!("GET {}: {error}", shown(url))),
        })?;
        if !status.is_success() {
            return Err(self.refusal(status, url, &bytes));
        }
        let body = serde_json::from_slice(&bytes);
        let body = body.map_err(|error| self.strange(url, self.unread(&error, &bytes)))?;
        let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<u64>().ok();
        Ok(Answer::Page(Page {
            body,
            has_next: number("X-Next-Page").is_some(),
            total: number("X-Total"),
        }))
    }

    fn refusal(&self, status: StatusCode, url: &Url, bytes: &[u8]) -> ScmError {
        let detail = format!("GET {}: {status}: {}", shown(url), self.message_of(bytes));
        let source_name = self.name.clone();
        match status.as_u16() {
            401 | 403 => ScmError::Auth {
                source_name,
                detail,
            },
            404 | 410 => ScmError::NotFound {
                source_name,
                // GitLab does not distinguish, so that strangers cannot detect projects.
                detail: format!("{detail} (it does not exist, or the token has no access)"),
            },
            408 | 425 | 500..=599 => self.unreachable(detail),
            _ => ScmError::Protocol {
                source_name,
                detail,
            },
        }
    }

    fn unreachable(&self, detail: String) -> ScmError {
        ScmError::Network {
            source_name: self.name.clone(),
            tries: 1,
            detail,
        }
    }

    /// Where parsing failed.
    fn unread(&self, error: &serde_json::Error, bytes: &[u8]) -> String {
        let size = bytes.len();
        let begins: Vec<u8> = bytes.iter().copied().take(80).collect();
        format!(
            "{error} ({size} bytes, beginning with {:?})",
            self.message_of(&begins)
        )
    }

    /// The server's message, short and without the token.
    fn message_of(&self, bytes: &[u8]) -> String {
        let json: Option<serde_json::Value> = serde_json::from_slice(bytes).ok();
        let field = |name: &str| match json.as_ref()?.get(name)? {
            serde_json::Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        };
        let fields = ["message", "error_description", "error"];
        let text = fields.into_iter().find_map(field);
        let mut text = text.unwrap_or_else(|| String::from_utf8_lossy(bytes).into_owned());
        if let Some(secret) = &self.secret {
            text = secret.mask_in(&text);
        }
        let text = text.chars().map(|c| if c.is_control() { ' ' } else { c });
        text.take(MESSAGE_CHARS_MAX).collect()
    }
}

/// A URL for people; it never contains a secret.
fn shown(url: &Url) -> String {
    let query = url.query().map(|query| format!("?{query}"));
    format!("{}{}", shown_url(url), query.unwrap_or_default())
}

/// The server's Retry-After: seconds, or a Unix time.
fn requested_wait(headers: &HeaderMap, now: Timestamp) -> Duration {
    let until = || {
        let until = headers.get("RateLimit-Reset")?.to_str().ok()?.trim();
        let until = until.parse::<i64>().ok()?;
        // The server's clock may be behind ours.
        let seconds = u64::try_from(until.checked_sub(now.as_second())?).unwrap_or_default();
        Some(Duration::from_secs(seconds))
    };
    let wait = retry_after(headers, now).or_else(until);
    wait.unwrap_or(WAIT_DEFAULT).max(Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_is_the_server_s() {
        let now: Timestamp = "2026-11-16T00:00:00Z".parse().unwrap();
        let reset = (now.as_second() + 42).to_string();
        let past = (now.as_second() - 42).to_string();
        let table: [(&[(&str, &str)], u64); 7] = [
            (&[("Retry-After", "7")], 7),
            (&[("Retry-After", "0")], 1),
            (&[("RateLimit-Reset", &reset)], 42),
            (&[("RateLimit-Reset", &past)], 1),
            (&[("Retry-After", "5"), ("RateLimit-Reset", &reset)], 5),
            (&[("RateLimit-Reset", "soon")], 30),
            (&[], 30),
        ];
        for (pairs, seconds) in table {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                let name: reqwest::header::HeaderName = name.parse().unwrap();
                headers.insert(name, value.parse().unwrap());
            }
            assert_eq!(
                requested_wait(&headers, now),
                Duration::from_secs(seconds),
                "{pairs:?}"
            );
        }
    }
}
