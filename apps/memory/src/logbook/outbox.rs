//! The outbox as the seed shows it: a view of the queue `memory`.

use consign_kernel::MessageId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The status of a row. Leased, scheduled and held rows are `Pending`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutboxStatus {
    /// Not delivered yet.
    Pending,
    /// Delivered.
    Sent,
    /// Dead.
    Dead,
}

impl OutboxStatus {
    /// The value in SQL and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Sent => "sent",
            Self::Dead => "dead",
        }
    }
}

/// A row of `outbox_memory`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutboxRow {
    /// The message id.
    pub outbox_id: MessageId,
    /// The logbook item.
    pub item_id: Option<i64>,
    /// The space.
    pub target_space: String,
    /// The text; `[erased]` if it was erased, whose hash is not `payload_sha`.
    pub payload_md: String,
    /// SHA-256 of the text.
    pub payload_sha: String,
    /// The status.
    pub status: OutboxStatus,
    /// Failed attempts since the last requeue that led to a retry; expiries do not count.
    pub retry_count: i64,
    /// When it is due; of a finished row, when it was due last.
    pub next_attempt_at: Option<Timestamp>,
    /// The last renewal of its lease.
    pub locked_at: Option<Timestamp>,
    /// The worker of its lease.
    pub locked_by: Option<String>,
    /// The last error; `memory_id=<id>` once it is sent.
    pub last_error: Option<String>,
    /// The backend's id.
    pub memory_id: Option<String>,
    /// The identity of its backend; absent: that of the delivering worker.
    pub backend: Option<String>,
    /// The request that deferred it.
    pub correlation_id: Option<String>,
    /// When it was enqueued.
    pub created_at: Timestamp,
    /// When it changed last.
    pub updated_at: Timestamp,
    /// When its content was erased: text, headers and error texts are gone.
    pub erased_at: Option<Timestamp>,
}

/// An existing row with the same text in the same space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Twin {
    /// Not delivered yet.
    Pending,
    /// Delivered, with the backend's id.
    Sent(Option<String>),
    /// Was dead, and is requeued.
    Requeued,
}

/// The result of enqueueing a memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnqueuedMemory {
    /// The new row, or the twin.
    pub outbox_id: MessageId,
    /// None: the row is new.
    pub twin: Option<Twin>,
}

/// The result of deferring a memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeferResult {
    /// The row.
    pub enqueued: EnqueuedMemory,
    /// Whether the request's audit was pending and ended.
    pub is_audited: bool,
}

/// A record that a memory was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownMemory {
    /// The sent row; none if it was stored directly.
    pub outbox_id: Option<MessageId>,
    /// The backend's id, if recorded.
    pub memory_id: Option<String>,
}

/// The result of storing a memory in the embedded backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeepResult {
    /// The id.
    pub memory_id: String,
    /// False if the same text was stored before.
    pub is_new: bool,
}
