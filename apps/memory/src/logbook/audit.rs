//! Write audits.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What was decided about a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// It goes where it was meant to.
    Allow,
    /// It goes elsewhere, or later.
    Redirect,
    /// It does not go.
    Reject,
}

impl Action {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Redirect => "redirect",
            Self::Reject => "reject",
        }
    }
}

/// How an audit stands. `Pending` ends once, and what has ended stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AuditStatus {
    /// The write is under way.
    Pending,
    /// It was done.
    Success,
    /// It was not, and will not be.
    Failed,
    /// It was put off.
    Redirected,
}

impl AuditStatus {
    /// As it is written.
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
    /// Who.
    pub actor_user_id: Option<String>,
    /// Where to; `governance:<project>` for a change of settings.
    pub target_space: String,
    /// What was decided.
    pub action: Action,
    /// Why.
    pub reason: Option<String>,
    /// What.
    pub payload_sha: Option<String>,
    /// Everything else.
    pub evidence_refs_json: Value,
    /// The request it belongs to. At most one pending audit has it.
    pub correlation_id: Option<String>,
    /// How it stands.
    pub status: AuditStatus,
}

/// How a pending audit ends.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditEnd {
    /// Never `Pending`.
    pub status: AuditStatus,
    /// Absent: as it was.
    pub action: Option<Action>,
    /// Absent: as it was.
    pub reason: Option<String>,
    /// Laid over `evidence_refs_json` key by key; `extra` and `gateway_event` one level deeper.
    pub patch: Value,
}

/// An audit as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Audit {
    /// Its number.
    pub audit_id: i64,
    /// When it was written.
    pub created_at: Timestamp,
    /// When it ended, if it was pending once.
    pub updated_at: Option<Timestamp>,
    /// Who.
    pub actor_user_id: Option<String>,
    /// Where to.
    pub target_space: String,
    /// What was decided.
    pub action: Action,
    /// Why.
    pub reason: Option<String>,
    /// What.
    pub payload_sha: Option<String>,
    /// Everything else.
    pub evidence_refs_json: Value,
    /// The request or batch.
    pub correlation_id: Option<String>,
    /// How it stands.
    pub status: AuditStatus,
}

/// Which audits. Absent fields fit everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuditFilter {
    /// Not older than.
    pub since: Option<Timestamp>,
    /// By.
    pub actor_user_id: Option<String>,
    /// With this action.
    pub action: Option<Action>,
    /// To.
    pub target_space: Option<String>,
    /// Whose reason begins so, every character meaning itself.
    pub reason_prefix: Option<String>,
    /// Of this request or batch.
    pub correlation_id: Option<String>,
    /// In this status.
    pub status: Option<AuditStatus>,
    /// About this row of the outbox.
    pub outbox_id: Option<i64>,
    /// Older than.
    pub until: Option<Timestamp>,
    /// With a smaller number than this: where the page before ended.
    pub before: Option<i64>,
    /// With a greater number than this: how far to walk back at most.
    pub after: Option<i64>,
}
