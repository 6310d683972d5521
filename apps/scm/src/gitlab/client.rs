//! Requests to a GitLab server, and what its answers mean.

use std::time::Duration;

use consign_outbound::{causes, retry_after};
use jiff::Timestamp;
use reqwest::{
    Response, StatusCode, Url,
    header::{HeaderMap, HeaderValue, LOCATION},
};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::address::Address;
use crate::{Retry, ScmError, Secret, SourceOptions};

/// A page of a hundred commits with long messages is not near it.
const ANSWER_BYTES_MAX: usize = 32 << 20;
/// Longest part of an answer that errors repeat.
const SAID_CHARS_MAX: usize = 200;
/// A server that wants to be left alone for longer gets its wish: the next run comes later.
const WAIT_MAX: Duration = Duration::from_secs(600);
/// For a server that does not say how long.
const WAIT_UNSAID: Duration = Duration::from_secs(30);
/// How often a request waits for its turn.
const WAITS_MAX: u32 = 10;
/// A project that was renamed is answered with where it is now.
const REDIRECTS_MAX: u32 = 3;

/// A page of an answer.
#[derive(Debug)]
pub(super) struct Page<T> {
    /// What is on it.
    pub(super) body: T,
    /// Whether the server says that there is another.
    pub(super) has_next: bool,
    /// How many there are on all pages, if the server says so.
    pub(super) total: Option<u64>,
}

/// What came of a request.
enum Answer<T> {
    Page(Page<T>),
    /// Too many requests: again after a while.
    Wait(Duration),
    Moved(Url),
}

/// A project of a GitLab server, to be asked.
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
        let token = secret.as_ref().map(|secret| {
            let mut value = HeaderValue::from_str(secret.reveal())?;
            value.set_sensitive(true);
            Ok::<_, reqwest::header::InvalidHeaderValue>(value)
        });
        let token = token.transpose().map_err(|_| {
            ScmError::Invalid("the token for GitLab holds what no token can hold".into())
        })?;
        options.reach.check_literal(url, &address.at(&[]))?;
        let invalid = |error: String| ScmError::Invalid(format!("ca_file {error}"));
        let http = consign_outbound::client(options.ca_file.as_deref())
            .map_err(|error| invalid(error.to_string()))?
            .dns_resolver(options.reach.allowed.clone().resolver())
            .connect_timeout(options.silence_max)
            .build()
            .map_err(|error| invalid(causes(&error)))?;
        Ok(Self {
            http,
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

    /// The URL of something of the project.
    pub(super) fn at(&self, segments: &[&str], query: &[(&str, &str)]) -> Url {
        let mut url = self.address.at(segments);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        url
    }

    /// Asks, and asks again what the network spoilt.
    pub(super) async fn get<T: DeserializeOwned>(&self, url: &Url) -> Result<Page<T>, ScmError> {
        self.follow(url, &self.retry).await
    }

    /// Asks once; a network failure is the caller's to repeat.
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
            match retry.run(async || self.ask(&url).await).await? {
                Answer::Page(page) => return Ok(page),
                Answer::Wait(wait) => self.wait(wait, &mut waits).await?,
                Answer::Moved(to) => {
                    redirects += 1;
                    let same = to.origin() == url.origin();
                    if !same || redirects > REDIRECTS_MAX {
                        let what = format!("leads to {}, where the token is not sent", shown(&to));
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
            let detail = format!("too many requests (429): it asks for {seconds} seconds of rest");
            return Err(ScmError::Network {
                source_name: self.name.clone(),
                tries: *waits,
                detail,
            });
        }
        (self.retry.wait)(wait).await;
        Ok(())
    }

    /// The same, but what is not there is no failure.
    pub(super) async fn find<T: DeserializeOwned>(&self, url: &Url) -> Result<Option<T>, ScmError> {
        match self.get(url).await {
            Ok(page) => Ok(Some(page.body)),
            Err(ScmError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A protocol error at a place.
    pub(super) fn strange(&self, url: &Url, what: impl std::fmt::Display) -> ScmError {
        ScmError::Protocol {
            source_name: self.name.clone(),
            detail: format!("GET {}: {what}", shown(url)),
        }
    }

    async fn ask<T: DeserializeOwned>(&self, url: &Url) -> Result<Answer<T>, ScmError> {
        let mut request = self
            .http
            .get(url.clone())
            .header("Accept", "application/json");
        if let Some(token) = &self.token {
            request = request.header("PRIVATE-TOKEN", token.clone());
        }
        let response = match timeout(self.silence_max, request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(self.unreachable(causes(&error.without_url()))),
            Err(_) => {
                return Err(self.unreachable(format!("GET {}: no answer in time", shown(url))));
            }
        };
        let (status, headers) = (response.status(), response.headers().clone());
        if status == StatusCode::TOO_MANY_REQUESTS {
            return Ok(Answer::Wait(asked_wait(&headers, Timestamp::now())));
        }
        if status.is_redirection() {
            let place = headers.get(LOCATION).and_then(|place| place.to_str().ok());
            let place = place.and_then(|place| url.join(place).ok());
            let nowhere = || self.strange(url, format!("answered {status} without a place to go"));
            return place.map(Answer::Moved).ok_or_else(nowhere);
        }
        let bytes = self.read(response, url).await?;
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

    async fn read(&self, mut response: Response, url: &Url) -> Result<Vec<u8>, ScmError> {
        let mut bytes = Vec::new();
        loop {
            match timeout(self.silence_max, response.chunk()).await {
                Ok(Ok(Some(chunk))) if bytes.len() + chunk.len() <= ANSWER_BYTES_MAX => {
                    bytes.extend_from_slice(&chunk);
                }
                Ok(Ok(Some(_))) => {
                    let what = format!("an answer of more than {ANSWER_BYTES_MAX} bytes");
                    return Err(self.strange(url, what));
                }
                Ok(Ok(None)) => return Ok(bytes),
                Ok(Err(error)) => return Err(self.unreachable(causes(&error.without_url()))),
                Err(_) => {
                    let what = format!("GET {}: the answer stopped in its middle", shown(url));
                    return Err(self.unreachable(what));
                }
            }
        }
    }

    fn refusal(&self, status: StatusCode, url: &Url, bytes: &[u8]) -> ScmError {
        let detail = format!("GET {}: {status}: {}", shown(url), self.said(bytes));
        let source_name = self.name.clone();
        match status.as_u16() {
            401 | 403 => ScmError::Auth {
                source_name,
                detail,
            },
            404 | 410 => ScmError::NotFound {
                source_name,
                // GitLab does not say which: that would tell strangers what there is.
                detail: format!("{detail} (it is not there, or the token may not see it)"),
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

    /// Where an answer stopped making sense.
    fn unread(&self, error: &serde_json::Error, bytes: &[u8]) -> String {
        let size = bytes.len();
        let begins: Vec<u8> = bytes.iter().copied().take(80).collect();
        format!(
            "{error} ({size} bytes, beginning with {:?})",
            self.said(&begins)
        )
    }

    /// What an error says, in few words and without the token.
    fn said(&self, bytes: &[u8]) -> String {
        let json: Option<serde_json::Value> = serde_json::from_slice(bytes).ok();
        let field = |name: &str| match json.as_ref()?.get(name)? {
            serde_json::Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        };
        let fields = ["message", "error_description", "error"];
        let text = fields.into_iter().find_map(field);
        let mut text = text.unwrap_or_else(|| String::from_utf8_lossy(bytes).into_owned());
        if let Some(secret) = self
            .secret
            .as_ref()
            .map(Secret::reveal)
            .filter(|it| !it.is_empty())
        {
            text = text.replace(secret, "***");
        }
        let text = text.chars().map(|c| if c.is_control() { ' ' } else { c });
        text.take(SAID_CHARS_MAX).collect()
    }
}

/// A URL for people: there is never a secret in it.
fn shown(url: &Url) -> String {
    let query = url.query().map(|query| format!("?{query}"));
    let port = url.port().map(|port| format!(":{port}"));
    format!(
        "{}://{}{}{}{}",
        url.scheme(),
        url.host_str().unwrap_or_default(),
        port.unwrap_or_default(),
        url.path(),
        query.unwrap_or_default()
    )
}

/// How long the server wants to be left alone: in seconds, or until a second since 1970.
fn asked_wait(headers: &HeaderMap, now: Timestamp) -> Duration {
    let until = || {
        let until = headers.get("RateLimit-Reset")?.to_str().ok()?.trim();
        let until = until.parse::<i64>().ok()?;
        // The server's clock may be behind ours.
        let seconds = u64::try_from(until.checked_sub(now.as_second())?).unwrap_or_default();
        Some(Duration::from_secs(seconds))
    };
    let wait = retry_after(headers, now).or_else(until);
    wait.unwrap_or(WAIT_UNSAID).max(Duration::from_secs(1))
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
                asked_wait(&headers, now),
                Duration::from_secs(seconds),
                "{pairs:?}"
            );
        }
    }
}
