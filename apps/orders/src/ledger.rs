//! The port to what orders are remembered by: one row per client and idempotency key.
//!
//! The ledger follows the message. Whatever ends a message of the queue `orders` or brings one back
//! (a settle, an expiry, a requeue, a redrive, a person's resolution) changes its row in the same
//! transaction, by the hook of the queue:
//!
//! - delivered: `accepted` becomes `succeeded`, with what the attempt's result says ([`Ended`]);
//! - dead: `accepted` becomes `failed`, likewise; without an `Ended` the status is 500 and the
//!   payload an error with the code `INTERNAL_ERROR`. With the code `IDEMPOTENCY_CONFLICT`, or with
//!   another digest in the row than in the message, the row is left alone;
//! - requeued: `failed` becomes `accepted` again, with a fresh time to live.
//!
//! `succeeded` never changes.

use std::{collections::BTreeMap, fmt, str::FromStr, time::Duration};

use async_trait::async_trait;
use consign_kernel::{Error, MessageId, Result};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Sent;

/// Whose key it is: the name of the token that was presented. Keys of two clients never meet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Client(String);

impl Client {
    /// Who calls without a token.
    pub const LOCAL: &str = "local";

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Client {
    type Err = Error;

    /// 1 to 128 bytes, no control characters, no `/`, which ends it in a message's key.
    fn from_str(name: &str) -> Result<Self> {
        let is_plain = !name.chars().any(|c| c.is_control() || c == '/');
        if is_plain && (1..=128).contains(&name.len()) {
            return Ok(Self(name.to_owned()));
        }
        let why = "a client's name is 1 to 128 bytes without control characters and `/`";
        Err(Error::invalid("client", why))
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An idempotency key: 8 to 64 characters, compared byte by byte, never trimmed or folded.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OrderKey(String);

impl OrderKey {
    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for OrderKey {
    type Err = Error;

    fn from_str(key: &str) -> Result<Self> {
        let is_storable = !key.contains('\0');
        if is_storable && (8..=64).contains(&key.chars().count()) {
            return Ok(Self(key.to_owned()));
        }
        Err(Error::invalid(
            "idempotency_key",
            "must be 8 to 64 characters without U+0000",
        ))
    }
}

/// An order to accept.
#[derive(Clone, Debug, PartialEq)]
pub struct NewOrder {
    /// Who asks.
    pub client: Client,
    /// Under which key.
    pub key: OrderKey,
    /// `sha256:` and the digest of the canonical request.
    pub request_digest: String,
    /// The message's payload: see [`Stored`](crate::Stored). It holds `request_digest` too, and
    /// every number as text.
    pub payload: Value,
    /// The message's headers.
    pub headers: Map<String, Value>,
    /// How long the key is remembered.
    pub ttl: Duration,
    /// How long the order may wait to be sent; none: for ever.
    pub max_age: Option<Duration>,
}

impl NewOrder {
    /// The key of its message, and what the broker knows it by: `client/key`.
    pub fn message_key(&self) -> String {
        format!("{}/{}", self.client, self.key.0)
    }
}

/// What the ledger says about a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LedgerStatus {
    /// On its way.
    Accepted,
    /// The broker has executed it.
    Succeeded,
    /// It will not be executed, unless a person requeues it.
    Failed,
}

impl LedgerStatus {
    /// As in the ledger's column.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
        }
    }
}

/// One row of the ledger.
#[derive(Clone, Debug, PartialEq)]
pub struct LedgerEntry {
    /// Whose key.
    pub client: Client,
    /// The key.
    pub key: OrderKey,
    /// What was asked.
    pub request_digest: String,
    /// What came of it; none before that, and where no adapter said so.
    pub result_digest: Option<String>,
    /// How it stands.
    pub status: LedgerStatus,
    /// When the key was first seen.
    pub first_seen_at: Timestamp,
    /// When it was last seen, to the minute: replays within one write nothing.
    pub last_seen_at: Timestamp,
    /// From when the row may be purged.
    pub expires_at: Timestamp,
    /// Until when the order may be sent; none: for ever.
    pub order_expires_at: Option<Timestamp>,
    /// The final answer's body, byte for byte the same at every reading.
    pub response: Option<String>,
    /// The final answer's status; 201 while accepted.
    pub http_status: u16,
    /// Its message; none for orders sent within the request.
    pub outbox_id: Option<MessageId>,
    /// How often the key came with another body.
    pub conflicts: u64,
    /// What is sent, while accepted; the final answer says it itself.
    pub sent: Option<Sent>,
}

/// What became of an order that was handed in.
#[derive(Clone, Debug, PartialEq)]
pub enum Accepted {
    /// New: it is in the ledger and on its way.
    New(LedgerEntry),
    /// The key came with the same body before; nothing was sent.
    Same(LedgerEntry),
    /// The key came with another body before; the conflict was counted, the row left as it was.
    Conflict(LedgerEntry),
}

impl Accepted {
    /// The row, whatever happened.
    pub fn entry(&self) -> &LedgerEntry {
        match self {
            Self::New(entry) | Self::Same(entry) | Self::Conflict(entry) => entry,
        }
    }
}

/// How an order ended: what the `result` of its last attempt holds for the ledger.
///
/// The body travels as text, because its numbers must not pass through floating point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// The status replays answer with.
    pub http_status: u16,
    /// The digest of the ExecResult.
    pub result_digest: String,
    /// The ExecResult, as JSON text.
    pub exec_result: String,
}

/// What a worker must know before it sends.
#[derive(Clone, Debug, PartialEq)]
pub struct Verified {
    /// The row its message belongs to: found by client and key, not by the message's id.
    pub entry: LedgerEntry,
    /// Whether the order's time is over, by the database's clock.
    pub is_expired: bool,
}

/// Which rows to list, newest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LedgerFilter {
    /// Of this client.
    pub client: Option<Client>,
    /// In this status.
    pub status: Option<LedgerStatus>,
}

/// What a purge did, or would do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PurgeReport {
    /// Succeeded rows past their time, removed with their messages.
    pub succeeded: u64,
    /// Failed rows past their time, removed with their messages.
    pub failed: u64,
    /// Rows past their time whose message is alive: kept.
    pub kept_alive: u64,
    /// Orders sent within a request that never came back with a result: now failed.
    pub given_up: u64,
    /// Failed keys among the removed that came with other bodies again and again.
    pub restless: Vec<Restless>,
    /// Whether there is more to purge.
    pub has_more: bool,
}

/// A failed key with many conflicts: a client that does not understand its failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restless {
    /// Whose key.
    pub client: Client,
    /// The key.
    pub key: OrderKey,
    /// How often it came with another body.
    pub conflicts: u64,
}

/// What the order protocol asks of a store. Each operation is one transaction; all times are the
/// database's clock.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// Accepts orders: for each a row and a message of the queue `orders`. Answers in order.
    ///
    /// A key that is there already writes no message: same digest is `Same`, another `Conflict`
    /// (counted beside the ledger). A key twice in one call is treated as if it came later.
    async fn accept(&self, orders: &[NewOrder]) -> Result<Vec<Accepted>>;

    /// Accepts an order that will be sent within the request: a row without a message. If no
    /// `close_direct` follows within `give_up_after`, the order counts as failed (504,
    /// `BROKER_TIMEOUT`: its outcome is unknown) from the next time anybody asks for it.
    async fn open_direct(&self, order: &NewOrder, give_up_after: Duration) -> Result<Accepted>;

    /// Records what came of an order sent within the request. Only `accepted` changes, and only
    /// with the same digest; answers the row as it then is.
    async fn close_direct(
        &self,
        order: &NewOrder,
        status: LedgerStatus,
        ended: &Ended,
    ) -> Result<Option<LedgerEntry>>;

    /// One row.
    async fn entry(&self, client: &Client, key: &OrderKey) -> Result<Option<LedgerEntry>>;

    /// One row, for a worker that is about to send.
    async fn verify(&self, client: &Client, key: &OrderKey) -> Result<Option<Verified>>;

    /// Rows, newest first, below the cursor (the last row's `first_seen_at`, client and key).
    async fn entries(
        &self,
        filter: &LedgerFilter,
        before: Option<&(Timestamp, Client, OrderKey)>,
        limit: u32,
    ) -> Result<Vec<LedgerEntry>>;

    /// Removes up to `limit` rows past their time together with their finished messages, never a
    /// row whose message is alive. Audited: a purge that removes something leaves an entry with the
    /// actor, the reason and the numbers. `is_dry_run` changes nothing.
    async fn purge(
        &self,
        limit: u32,
        conflicts_min: u64,
        is_dry_run: bool,
        by: &consign_kernel::By,
    ) -> Result<PurgeReport>;

    /// Takes up to `want` calls out of a client's daily quota; answers how many it got. Days are UTC.
    async fn take_quota(&self, client: &Client, want: u32, per_day: u32) -> Result<u32>;

    /// How many rows there are by status, as far as the store can say cheaply.
    async fn count(&self) -> Result<BTreeMap<&'static str, u64>>;
}
