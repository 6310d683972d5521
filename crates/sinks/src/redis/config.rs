//! The options of a redis sink.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{SecretSource, broker};

/// `kind = "redis"`: each message is an entry of a stream.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RedisConfig {
    /// Where to connect: `redis://host:6379/0` or `rediss://host` with TLS.
    pub url: String,
    /// The user to log in as; Redis's default one by default.
    #[serde(default)]
    pub user: Option<String>,
    /// The user's password.
    #[serde(default)]
    pub password: Option<SecretSource>,
    /// The key of the stream; `{queue}` and `{group}` are replaced.
    pub stream: String,
    /// About how many entries the stream keeps; all of them by default.
    #[serde(default)]
    pub max_len: Option<u64>,
    /// How long Redis remembers that it has a message, so that it is not added twice.
    #[serde(default)]
    pub dedupe_ttl_ms: Option<u64>,
    /// Certificates to trust instead of the system's, as PEM.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// A certificate to show, as PEM.
    #[serde(default)]
    pub client_cert_file: Option<PathBuf>,
    /// Its key, as PEM.
    #[serde(default)]
    pub client_key_file: Option<PathBuf>,
    /// How long connecting may take.
    #[serde(default = "broker::connect_timeout_ms")]
    pub connect_timeout_ms: u64,
}
