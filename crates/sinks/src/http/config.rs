//! The options of an http sink.

use std::{collections::BTreeMap, path::PathBuf};

use reqwest::{Method, Url};
use serde::{Deserialize, Serialize, Serializer};

use crate::{Secret, SinkError, cloudevents::EventMode};

/// `kind = "http"`: each message is a request with its payload as body.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HttpConfig {
    /// Where requests go. Shown without user, password and query; hidden but for its host if given
    /// by variable or file.
    #[serde(serialize_with = "shown")]
    pub url: Secret,
    /// The method.
    #[serde(default)]
    pub method: HttpMethod,
    /// Headers of every request; their values are treated as secrets.
    #[serde(default)]
    pub headers: BTreeMap<String, Secret>,
    /// Sent as `Authorization: Bearer …`.
    #[serde(default)]
    pub bearer_token: Option<Secret>,
    /// Headers of messages that become headers of requests: names, or beginnings and a `*`.
    #[serde(default)]
    pub forward_headers: Vec<String>,
    /// Keys of Standard Webhooks (`whsec_…`, `whsk_…`), several separated by blanks. Each signs.
    #[serde(default)]
    pub signing_secret: Option<Secret>,
    /// Whether and how requests are CloudEvents.
    #[serde(default)]
    pub cloudevents: Option<EventMode>,
    /// The `source` of events that do not bring one; `/consign/<queue>` unless given.
    #[serde(default)]
    pub event_source: Option<String>,
    /// The `type` of events that do not bring one; `consign.<queue>` unless given.
    #[serde(default)]
    pub event_type: Option<String>,
    /// Addresses (`10.0.0.0/8`, `127.0.0.1`) and names that may be reached although not public.
    #[serde(default)]
    pub allow: Vec<String>,
    /// Refuses a `url` that is not https.
    #[serde(default)]
    pub https_only: bool,
    /// Certificates to trust besides the system's, as PEM.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// A proxy to send requests through. The environment's is never used unasked.
    #[serde(default)]
    pub proxy: Option<Secret>,
    /// How long connecting may take.
    #[serde(default = "connect_timeout_ms")]
    pub connect_timeout_ms: u64,
    /// The longest wait a `Retry-After` may ask for.
    #[serde(default = "retry_after_max_ms")]
    pub retry_after_max_ms: u64,
    /// Whether the beginning of the answer's body is kept with the attempt.
    #[serde(default)]
    pub keep_response: bool,
    /// Statuses that mean delivered, besides the usual ones.
    #[serde(default)]
    pub delivered_statuses: Vec<u16>,
    /// Statuses that mean retry, besides the usual ones.
    #[serde(default)]
    pub retry_statuses: Vec<u16>,
    /// Statuses that mean dead, besides the usual ones.
    #[serde(default)]
    pub dead_statuses: Vec<u16>,
    /// Statuses that mean uncertain, besides the usual ones.
    #[serde(default)]
    pub uncertain_statuses: Vec<u16>,
    /// Where to ask whether a message has arrived; `{key}`, `{id}` and `{queue}` stand for its own.
    #[serde(default, serialize_with = "shown_if_any")]
    pub probe_url: Option<Secret>,
}

fn connect_timeout_ms() -> u64 {
    5_000
}

fn retry_after_max_ms() -> u64 {
    60 * 60 * 1_000
}

/// The methods that carry a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum HttpMethod {
    /// `POST`
    #[default]
    Post,
    /// `PUT`
    Put,
    /// `PATCH`
    Patch,
}

impl From<HttpMethod> for Method {
    fn from(method: HttpMethod) -> Self {
        match method {
            HttpMethod::Post => Self::POST,
            HttpMethod::Put => Self::PUT,
            HttpMethod::Patch => Self::PATCH,
        }
    }
}

/// Reads a URL and refuses what no request could go to. Never names it: it may hold secrets.
pub(super) fn parse_url(option: &str, text: &str, https_only: bool) -> Result<Url, SinkError> {
    let refuse = |why: &str| SinkError::invalid(option, why);
    let url: Url = text
        .parse()
        .map_err(|_| refuse("is not a URL such as https://host/path"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(refuse("must start with https:// or http://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refuse(
            "must not hold a user or password; use `bearer_token` or `headers`",
        ));
    }
    if https_only && url.scheme() != "https" {
        return Err(refuse("must start with https://, as `https_only` demands"));
    }
    Ok(url)
}

/// A URL without what may be secret in it. `whole` keeps the path.
pub(super) fn without_secrets(url: &Url, whole: bool) -> String {
    let port = url
        .port()
        .map(|port| format!(":{port}"))
        .unwrap_or_default();
    let path = if whole { url.path() } else { "" };
    let host = url.host_str().unwrap_or_default();
    format!("{}://{host}{port}{path}", url.scheme())
}

fn shown<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
    match secret {
        Secret::Value(text) => match text.parse::<Url>() {
            Ok(url) => without_secrets(&url, true).serialize(serializer),
            Err(_) => secret.serialize(serializer),
        },
        Secret::Env(_) | Secret::File(_) => secret.serialize(serializer),
    }
}

fn shown_if_any<S: Serializer>(secret: &Option<Secret>, serializer: S) -> Result<S::Ok, S::Error> {
    match secret {
        Some(secret) => shown(secret, serializer),
        None => serializer.serialize_none(),
    }
}
