//! The ledger port: one row per client and idempotency key.
//!
//! The hook of the queue `orders` updates the row in the transaction that changes the message
//! (settle, expiry, requeue, redrive, resolution):
//!
//! - delivered: `accepted` becomes `succeeded`, with the attempt's result ([`FinalResult`]);
//! - dead: `accepted` becomes `failed`, likewise; without a `FinalResult` the status is 500 and the
//!   payload an error with the code `INTERNAL_ERROR`. With the code `IDEMPOTENCY_CONFLICT`, or if the
//!   digests of row and message differ, the row does not change;
//! - requeued: `failed` becomes `accepted` again, with a new time to live.
//!
//! `succeeded` never changes.

use std::{collections::BTreeMap, fmt, str::FromStr, time::Duration};

use async_trait::async_trait;
use consign_kernel::{Error, MessageId, Result};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::SentAmounts;

/// The owner of a key: the name of the API token. Keys of different clients are independent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Client(String);

impl Client {
    /// The client of calls without a token.
    pub const LOCAL: &str = "local";

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Client {
    type Err = Error;

    /// 1 to 128 bytes, no control characters, and no `/`, which separates client and key in a
    /// message's key.
    fn from_str(name: &str) -> Result<Self> {
        let is_plain = !name.chars().any(|c| c.is_control() || c == '/');
        if is_plain && (1..=128).contains(&name.len()) {
            return Ok(Self(name.to_owned()));
        }
        let why = "a client's name is 1 to 128 bytes without control characters or `/`";
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
    /// The client.
    pub client: Client,
    /// Its idempotency key.
    pub key: OrderKey,
    /// `sha256:` and the digest of the canonical request.
    pub request_digest: String,
    /// The message's payload: see [`StoredOrder`](crate::StoredOrder). It includes
    /// `request_digest`, and every number as text.
    pub payload: Value,
    /// The message's headers.
    pub headers: Map<String, Value>,
    /// Lifetime of the key.
    pub ttl: Duration,
    /// Maximum time until the order is sent; `None`: unlimited.
    pub max_age: Option<Duration>,
}

impl NewOrder {
    /// The key of its message and at the broker: `client/key`.
    pub fn message_key(&self) -> String {
        format!("{}/{}", self.client, self.key.0)
    }
}

/// Status of a key in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LedgerStatus {
    /// Accepted; no result yet.
    Accepted,
    /// Executed by the broker.
    Succeeded,
    /// Not executed, unless an operator requeues it.
    Failed,
}

impl LedgerStatus {
    /// The value of the ledger's column.
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
    /// Owner of the key.
    pub client: Client,
    /// The key.
    pub key: OrderKey,
    /// Digest of the request.
    pub request_digest: String,
    /// Digest of the result; `None` before that, and where no adapter reported one.
    pub result_digest: Option<String>,
    /// Status.
    pub status: LedgerStatus,
    /// When the key was first used.
    pub first_seen_at: Timestamp,
    /// When it was last used, to the minute: replays within a minute write nothing.
    pub last_seen_at: Timestamp,
    /// When the row may be purged.
    pub expires_at: Timestamp,
    /// When the unsent order expires; `None`: never.
    pub order_expires_at: Option<Timestamp>,
    /// Body of the final answer, byte for byte.
    pub response: Option<String>,
    /// Status of the final answer; 201 while accepted.
    pub http_status: u16,
    /// Its message; none for orders sent within the request.
    pub outbox_id: Option<MessageId>,
    /// How often the key was used with another body.
    pub conflicts: u64,
    /// Amounts to send, while accepted; then they are in the final answer.
    pub sent: Option<SentAmounts>,
}

/// Result of accepting an order.
#[derive(Clone, Debug, PartialEq)]
pub enum AcceptResult {
    /// New: the row and the message were written.
    New(LedgerEntry),
    /// The key was used with the same body before; nothing was sent.
    Same(LedgerEntry),
    /// The key was used with another body before; the conflict was counted, the row did not change.
    Conflict(LedgerEntry),
}

impl AcceptResult {
    /// The row in every case.
    pub fn entry(&self) -> &LedgerEntry {
        match self {
            Self::New(entry) | Self::Same(entry) | Self::Conflict(entry) => entry,
        }
    }
}

/// Final result of an order: the `result` of its last attempt.
///
/// The body is text, because its numbers must not pass through floating point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinalResult {
    /// Status of replays.
    pub http_status: u16,
    /// The digest of the ExecResult.
    pub result_digest: String,
    /// The ExecResult as JSON text.
    pub exec_result: String,
}

/// The ledger state that a worker checks before it sends.
#[derive(Clone, Debug, PartialEq)]
pub struct VerifiedOrder {
    /// The row, found by client and key, not by the message's id.
    pub entry: LedgerEntry,
    /// Whether the order has expired, by the database's clock.
    pub is_expired: bool,
}

/// Filter of a list, newest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LedgerFilter {
    /// Of this client.
    pub client: Option<Client>,
    /// In this status.
    pub status: Option<LedgerStatus>,
}

/// Result of a purge, or of its dry run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PurgeReport {
    /// Expired succeeded rows, removed with their messages.
    pub succeeded: u64,
    /// Expired failed rows, removed with their messages.
    pub failed: u64,
    /// Expired rows whose message is not finished: kept.
    pub kept_alive: u64,
    /// Orders sent within a request without a recorded result: now failed.
    pub given_up: u64,
    /// Removed failed keys with many conflicts.
    pub restless: Vec<ConflictingKey>,
    /// Whether more rows can be purged.
    pub has_more: bool,
}

/// A failed key with many conflicts: its client probably misreads the failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictingKey {
    /// Owner of the key.
    pub client: Client,
    /// The key.
    pub key: OrderKey,
    /// How often it was used with another body.
    pub conflicts: u64,
}

/// The store operations of the order protocol. Each is one transaction; all times are the
/// database's clock.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// Accepts orders: a row and a message of the queue `orders` for each. Results are in input
    /// order.
    ///
    /// A known key writes no message: the same digest is `Same`, another one `Conflict` (counted
    /// beside the ledger). A key that occurs twice in one call is handled as two calls.
    async fn accept(&self, orders: &[NewOrder]) -> Result<Vec<AcceptResult>>;

    /// Accepts an order that is sent within the request: a row without a message. Without a
    /// `close_direct` within `give_up_after`, the next read returns it as failed (504,
    /// `BROKER_TIMEOUT`: its outcome is unknown).
    async fn open_direct(&self, order: &NewOrder, give_up_after: Duration) -> Result<AcceptResult>;

    /// Records the result of an order sent within the request. Changes only `accepted` rows with
    /// the same digest; returns the current row.
    async fn close_direct(
        &self,
        order: &NewOrder,
        status: LedgerStatus,
        ended: &FinalResult,
    ) -> Result<Option<LedgerEntry>>;

    /// One row.
    async fn entry(&self, client: &Client, key: &OrderKey) -> Result<Option<LedgerEntry>>;

    /// One row, for a worker before its send.
    async fn verify(&self, client: &Client, key: &OrderKey) -> Result<Option<VerifiedOrder>>;

    /// Rows, newest first, below the cursor (the last row's `first_seen_at`, client and key).
    async fn entries(
        &self,
        filter: &LedgerFilter,
        before: Option<&(Timestamp, Client, OrderKey)>,
        limit: u32,
    ) -> Result<Vec<LedgerEntry>>;

    /// Removes up to `limit` expired rows together with their finished messages, never a row whose
    /// message is not finished. A purge that removes rows writes an audit entry with the actor, the
    /// reason and the numbers. `is_dry_run` changes nothing.
    async fn purge(
        &self,
        limit: u32,
        conflicts_min: u64,
        is_dry_run: bool,
        by: &consign_kernel::By,
    ) -> Result<PurgeReport>;

    /// Takes up to `want` calls from a client's daily quota; returns how many were granted. Days
    /// are UTC.
    async fn take_quota(&self, client: &Client, want: u32, per_day: u32) -> Result<u32>;

    /// Row counts by status, as far as the store can count cheaply.
    async fn count(&self) -> Result<BTreeMap<&'static str, u64>>;
}
