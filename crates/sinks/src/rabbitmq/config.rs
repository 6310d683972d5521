//! The options of a rabbitmq sink.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{SecretSource, broker, cloudevents::EventMode};

/// `kind = "rabbitmq"`: each message is a persistent, confirmed publish.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RabbitmqConfig {
    /// Where to connect: `amqp://host:5672` or `amqps://host`, with `/vhost` if not the default.
    pub url: String,
    /// The user to log in as; `guest` by default.
    #[serde(default)]
    pub user: Option<String>,
    /// The user's password.
    #[serde(default)]
    pub password: Option<SecretSource>,
    /// The exchange; empty is the default one, which routes to the queue named by the key.
    #[serde(default)]
    pub exchange: String,
    /// The routing key; `{queue}` and `{group}` are replaced.
    pub routing_key: String,
    /// Certificates to trust besides the system's, as PEM.
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
