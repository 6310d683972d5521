//! The options of a nats sink.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{SecretSource, broker, cloudevents::EventMode};

/// `kind = "nats"`: each message is published to a JetStream stream.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NatsConfig {
    /// Where to connect: `nats://host:4222` or `tls://host`, any number of a cluster's nodes.
    pub servers: Vec<String>,
    /// The subject; `{queue}` and `{group}` are replaced.
    pub subject: String,
    /// Put before each `Nats-Msg-Id`. Needed when several databases publish to one stream.
    #[serde(default)]
    pub id_prefix: String,
    /// The user to log in as.
    #[serde(default)]
    pub user: Option<String>,
    /// The user's password.
    #[serde(default)]
    pub password: Option<SecretSource>,
    /// A token to log in with instead.
    #[serde(default)]
    pub token: Option<SecretSource>,
    /// Or credentials, as the file that `nsc` makes holds them: usually `credentials_file`.
    #[serde(default)]
    pub credentials: Option<SecretSource>,
    /// Whether TLS is demanded, whatever the server offers.
    #[serde(default)]
    pub tls: bool,
    /// Certificates to trust instead of the system's, as PEM.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// A certificate to show, as PEM.
    #[serde(default)]
    pub client_cert_file: Option<PathBuf>,
    /// Its key, as PEM.
    #[serde(default)]
    pub client_key_file: Option<PathBuf>,
    /// How long a delivery waits for a connection.
    #[serde(default = "broker::connect_timeout_ms")]
    pub connect_timeout_ms: u64,
    /// Headers of messages that become headers of what is published: names, or beginnings and `*`.
    #[serde(default)]
    pub forward_headers: Vec<String>,
    /// Whether and how messages are CloudEvents.
    #[serde(default)]
    pub cloudevents: Option<EventMode>,
    /// The `source` of events that do not bring one; `/consign/<queue>` by default.
    #[serde(default)]
    pub event_source: Option<String>,
    /// The `type` of events that do not bring one; `consign.<queue>` by default.
    #[serde(default)]
    pub event_type: Option<String>,
}
