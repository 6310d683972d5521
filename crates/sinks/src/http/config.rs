//! The options of an http sink.

use std::{collections::BTreeMap, path::PathBuf};

use consign_outbound::shown_url;
use reqwest::{Method, Url};
use serde::{Deserialize, Serialize, Serializer};

use crate::{SecretSource, SinkError, cloudevents::EventMode};

/// `kind = "http"`: each message is a request with its payload as body.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HttpConfig {
    /// Where requests go. Shown without user, password and query; hidden but for its host if given
    /// by variable or file.
    #[serde(serialize_with = "shown")]
    pub url: SecretSource,
    /// The method.
    #[serde(default)]
    pub method: HttpMethod,
    /// Headers of every request; their values are treated as secrets.
    #[serde(default)]
    pub headers: BTreeMap<String, SecretSource>,
    /// Sent as `Authorization: Bearer …`.
    #[serde(default)]
    pub bearer_token: Option<SecretSource>,
    /// Headers of messages that become headers of requests: names, or beginnings and a `*`.
    #[serde(default)]
    pub forward_headers: Vec<String>,
    /// Keys of Standard Webhooks (`whsec_…`, `whsk_…`), several separated by blanks; each signs every request.
    #[serde(default)]
    pub signing_secret: Option<SecretSource>,
    /// Whether and how requests are CloudEvents.
    #[serde(default)]
    pub cloudevents: Option<EventMode>,
    /// The `source` of events that do not bring one; `/consign/<queue>` by default.
    #[serde(default)]
    pub event_source: Option<String>,
    /// The `type` of events that do not bring one; `consign.<queue>` by default.
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
    /// A proxy to send requests through. The environment's proxy is never used.
    #[serde(default)]
    pub proxy: Option<SecretSource>,
    /// How long connecting may take.
    #[serde(default = "connect_timeout_ms")]
    pub connect_timeout_ms: u64,
    /// The longest wait that `Retry-After` may request.
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
    /// The URL of the probe whether a message has arrived; `{key}`, `{id}` and `{queue}` are replaced.
    #[serde(default, serialize_with = "shown_if_any")]
    pub probe_url: Option<SecretSource>,
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

/// Refuses an address in the clear where the configuration demands https.
pub(super) fn check_https(option: &str, url: &Url, https_only: bool) -> Result<(), SinkError> {
    if https_only && url.scheme() != "https" {
        let why = "must start with https://, as `https_only` demands";
        return Err(SinkError::invalid(option, why));
    }
    Ok(())
}

/// Where requests go, for people. One that is given by variable or file may have a secret in its path.
pub(super) fn destination(secret: &SecretSource, url: &Url) -> String {
    match secret {
        SecretSource::Value(_) => shown_url(url),
        SecretSource::Env(_) | SecretSource::File(_) => url.origin().ascii_serialization(),
    }
}

fn shown<S: Serializer>(secret: &SecretSource, serializer: S) -> Result<S::Ok, S::Error> {
    match secret {
        SecretSource::Value(text) => match text.reveal().parse::<Url>() {
            Ok(url) => shown_url(&url).serialize(serializer),
            Err(_) => secret.serialize(serializer),
        },
        SecretSource::Env(_) | SecretSource::File(_) => secret.serialize(serializer),
    }
}

fn shown_if_any<S: Serializer>(
    secret: &Option<SecretSource>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match secret {
        Some(secret) => shown(secret, serializer),
        None => serializer.serialize_none(),
    }
}
