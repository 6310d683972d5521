//! Subscribers, and the port to where they are stored.

use std::{fmt, str::FromStr};

use async_trait::async_trait;
use consign_kernel::{Error, MessageId, NewMessage, QueueName, Result};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The queue of welcomes. The app, its component and its table of settings have the same name.
pub const QUEUE: &str = "newsletter";

/// The same as a name.
pub fn queue() -> QueueName {
    QUEUE.parse().expect("invariant: a valid name")
}

/// An address to write to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Address(String);

impl Address {
    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its part after the `@`.
    pub fn domain(&self) -> &str {
        self.0.rsplit('@').next().unwrap_or_default()
    }

    /// The message that welcomes it. The key makes a repeat return the first message.
    pub fn welcome(&self) -> NewMessage {
        NewMessage::new(queue(), json!({ "address": self })).with_key(&self.0)
    }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let is_plain = |part: &str| !part.is_empty() && !part.contains(char::is_whitespace);
        match text.split_once('@') {
            Some((name, domain))
                if is_plain(name)
                    && is_plain(domain)
                    && !domain.contains('@')
                    && text.len() <= 254 =>
            {
                Ok(Self(text.to_owned()))
            }
            _ => Err(Error::invalid(
                "address",
                "must be NAME@DOMAIN, at most 254 bytes",
            )),
        }
    }
}

impl TryFrom<String> for Address {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Address> for String {
    fn from(address: Address) -> Self {
        address.0
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How far a subscriber has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Its welcome is on the way.
    Pending,
    /// Its welcome was delivered.
    Welcomed,
    /// Its welcome is dead.
    Unreachable,
}

impl Status {
    /// The word in tables and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Welcomed => "welcomed",
            Self::Unreachable => "unreachable",
        }
    }
}

/// A row of the app's table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Subscriber {
    /// Where it is reached.
    pub address: Address,
    /// Follows its message, by the hook.
    pub status: Status,
    /// The message that welcomes it.
    pub message_id: MessageId,
}

impl Subscriber {
    /// A row as it was read.
    pub(crate) fn of_row(address: String, status: &str, message_id: i64) -> Result<Self> {
        let corrupt = |what: String| Error::Corrupt { what };
        Ok(Self {
            address: address
                .parse()
                .map_err(|_| corrupt(format!("subscriber {address:?}")))?,
            status: serde_json::from_value(json!(status))
                .map_err(|_| corrupt(format!("status {status:?}")))?,
            message_id: MessageId(message_id),
        })
    }
}

/// What the app stores. Each operation is one transaction.
#[async_trait]
pub trait Subscribers: Send + Sync + fmt::Debug {
    /// Writes a subscriber and enqueues its welcome; a repeat returns the subscriber that is there.
    async fn subscribe(&self, address: &Address) -> Result<Subscriber>;

    /// One subscriber.
    async fn subscriber(&self, address: &Address) -> Result<Option<Subscriber>>;

    /// The first subscribers by address.
    async fn subscribers(&self, limit: u32) -> Result<Vec<Subscriber>>;
}
