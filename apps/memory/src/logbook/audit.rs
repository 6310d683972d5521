//! Write audits, and the opening of a write: what is checked and written before a memory server is
//! called.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{KeepResult, KnownMemory, Settings};
use crate::NewMemory;

/// The decision about a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Stored in the requested space.
    Allow,
    /// Stored in another space, or deferred.
    Redirect,
    /// Not stored.
    Reject,
}

impl Action {
    /// The value in SQL and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Redirect => "redirect",
            Self::Reject => "reject",
        }
    }
}

/// The status of an audit. A pending one ends once; an ended one never changes, but for an erasure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AuditStatus {
    /// The write is in progress.
    Pending,
    /// Stored.
    Success,
    /// Not stored.
    Failed,
    /// Deferred to the outbox.
    Redirected,
}

impl AuditStatus {
    /// The value in SQL and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Success => "success",
            Self::Failed => "failed",
            Self::Redirected => "redirected",
        }
    }
}

/// An audit to write.
#[derive(Clone, Debug, PartialEq)]
pub struct NewAudit {
    /// The acting user.
    pub actor_user_id: Option<String>,
    /// The space; `governance:<project>` for a change of settings.
    pub target_space: String,
    /// The decision.
    pub action: Action,
    /// Rule or cause behind the decision, such as `policy:kind_not_allowed:FACT`.
    pub reason: Option<String>,
    /// SHA-256 of the text or file.
    pub payload_sha: Option<String>,
    /// The document, see [`crate::audit_json`].
    pub evidence_refs_json: Value,
    /// The request. At most one pending audit has it.
    pub correlation_id: Option<String>,
    /// The status.
    pub status: AuditStatus,
}

/// The end of a pending audit.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditEnd {
    /// Never `Pending`.
    pub status: AuditStatus,
    /// Absent: unchanged.
    pub action: Option<Action>,
    /// Absent: unchanged.
    pub reason: Option<String>,
    /// Merged into the document key by key; `extra` and `gateway_event` one level deeper.
    pub patch: Value,
}

/// An audit as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Audit {
    /// The id.
    pub audit_id: i64,
    /// When it was inserted.
    pub created_at: Timestamp,
    /// When it ended, if it was pending.
    pub updated_at: Option<Timestamp>,
    /// The acting user.
    pub actor_user_id: Option<String>,
    /// The space.
    pub target_space: String,
    /// The decision.
    pub action: Action,
    /// Rule or cause behind the decision, such as `policy:kind_not_allowed:FACT`.
    pub reason: Option<String>,
    /// SHA-256 of the text or file.
    pub payload_sha: Option<String>,
    /// The document, see [`crate::audit_json`].
    pub evidence_refs_json: Value,
    /// The request or lease.
    pub correlation_id: Option<String>,
    /// The status.
    pub status: AuditStatus,
}

/// A filter of audits. Absent fields match everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuditFilter {
    /// Created at this time or later.
    pub since: Option<Timestamp>,
    /// The acting user.
    pub actor_user_id: Option<String>,
    /// The decision.
    pub action: Option<Action>,
    /// The space.
    pub target_space: Option<String>,
    /// A literal prefix of the reason.
    pub reason_prefix: Option<String>,
    /// The request or lease.
    pub correlation_id: Option<String>,
    /// The status.
    pub status: Option<AuditStatus>,
    /// The outbox row.
    pub outbox_id: Option<i64>,
    /// Created before this time.
    pub until: Option<Timestamp>,
    /// Ids below this one: the end of the page before.
    pub before: Option<i64>,
    /// Ids above this one: bounds the scan.
    pub after: Option<i64>,
}

/// A decided write.
#[derive(Clone, Debug, PartialEq)]
pub struct Opening {
    /// The pending audit, with space and hash of the memory; `backend` in its document names the backend.
    pub audit: NewAudit,
    /// The cached settings that the decision used; the write is stale if they differ from the database.
    /// Absent: they were read for this request.
    pub settings: Option<Arc<Settings>>,
    /// The actor that was assumed to be an active user; the write is stale if it is not.
    pub user_id: Option<String>,
    /// Whether a record of the same text is returned instead.
    pub is_deduplicated: bool,
    /// The memory, if the embedded backend stores it: in the same transaction, with the audit ended.
    pub kept: Option<NewMemory>,
}

/// The result of opening a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenResult {
    /// The audit is pending.
    Pending {
        /// Whether the backend may have the memory: see [`super::Logbook::may_be_stored`], or because an
        /// outbox row of it is pending or dead. The caller has to ask the backend before it stores.
        in_doubt: bool,
    },
    /// The embedded backend stored the memory, and the audit has ended.
    Kept(KeepResult),
    /// It was stored before; nothing was written.
    Known(KnownMemory),
    /// The settings have changed, or the actor is no user; nothing was written.
    Stale,
}
