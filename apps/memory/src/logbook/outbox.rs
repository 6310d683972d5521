//! The outbox as the seed shows it: a view of the queue `memory`.

use consign_kernel::MessageId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// How a row stands. In a lease, resting and held read `Pending`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutboxStatus {
    /// Still to be stored.
    Pending,
    /// Stored.
    Sent,
    /// Given up.
    Dead,
}

impl OutboxStatus {
    /// As it is written.
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
    /// Its number: the message's.
    pub outbox_id: MessageId,
    /// The item it is about.
    pub item_id: Option<i64>,
    /// Where it belongs.
    pub target_space: String,
    /// The text.
    pub payload_md: String,
    /// Its hash.
    pub payload_sha: String,
    /// How it stands.
    pub status: OutboxStatus,
    /// Attempts that will be or were repeated, since the last requeue; expiries do not count.
    pub retry_count: i64,
    /// When it is due next; of a finished one, when it was last.
    pub next_attempt_at: Option<Timestamp>,
    /// Since when somebody has it: the last renewal.
    pub locked_at: Option<Timestamp>,
    /// Who has it.
    pub locked_by: Option<String>,
    /// The last error; `memory_id=<id>` once it is sent.
    pub last_error: Option<String>,
    /// Under what the memory server has it.
    pub memory_id: Option<String>,
    /// The backend it is meant for, by its identity; absent: that of whoever delivers it.
    pub backend: Option<String>,
    /// The request it came with.
    pub correlation_id: Option<String>,
    /// When it was enqueued.
    pub created_at: Timestamp,
    /// When anything happened to it last.
    pub updated_at: Timestamp,
}

/// What stands in the way of enqueueing a memory: the same text in the same space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Twin {
    /// It waits or is under way.
    Pending,
    /// It was stored, under this name.
    Sent(Option<String>),
    /// It was dead and has been requeued.
    Requeued,
}

/// The answer to enqueueing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnqueuedMemory {
    /// The row: the new one or the twin's.
    pub outbox_id: MessageId,
    /// None: it is new.
    pub twin: Option<Twin>,
}

/// The answer to deferring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deferred {
    /// The row.
    pub enqueued: EnqueuedMemory,
    /// Whether the request's audit was pending and has ended.
    pub is_audited: bool,
}

/// A memory that is stored already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The row that was sent; none: it was stored directly.
    pub outbox_id: Option<MessageId>,
    /// Under what the memory server has it, if that is known.
    pub memory_id: Option<String>,
}
