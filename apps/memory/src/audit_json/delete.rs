//! Audits of `memory_delete`.

use jiff::Timestamp;
use serde_json::{Map, json};

use super::{Event, shown_error};
use crate::{
    Action, Audit, AuditEnd, AuditStatus, BackendError, Correlation, NewAudit, card::Trim,
    evidence::Evidence,
};

/// Says in `extra` that a removal was sent, and not whether it was done.
const MAY_BE_REMOVED: &str = "may_be_removed";

/// A request to remove a memory. The audit names it under `deleted_memory_id`: nothing is stored by it,
/// so it plays no part in telling whether a text is stored.
#[derive(Clone, Copy, Debug)]
pub struct DeleteAudit<'a> {
    /// The request.
    pub correlation: &'a Correlation,
    /// Who, as far as that is known.
    pub actor_user_id: Option<&'a str>,
    /// The space that the memory is in; that of the team if there is no such memory.
    pub space: &'a str,
    /// The memory.
    pub memory_id: &'a str,
    /// The backend that has it.
    pub backend: &'a str,
    /// What was decided.
    pub action: Action,
    /// Why: `memory_delete`, `memory_delete:not_found`, `policy:…`, `actor_…`.
    pub reason: &'a str,
}

impl DeleteAudit<'_> {
    /// The audit: pending before a memory server is called, else final.
    pub fn audit(&self, status: AuditStatus) -> NewAudit {
        let extra = Map::from_iter([("deleted_memory_id".to_owned(), json!(self.memory_id))]);
        let event = Event {
            operation: "memory_delete",
            correlation: self.correlation,
            actor_user_id: self.actor_user_id,
            requested_space: self.space,
            final_space: None,
            action: self.action,
            reason: self.reason,
            payload_sha: None,
            payload_len: None,
            evidence: &Evidence::default(),
            trim: &Trim::default(),
            event_ts: Timestamp::now(),
            memory_id: None,
            backend: Some(self.backend),
            sections: Map::new(),
            extra: &extra,
        };
        event.audit(self.space, status)
    }

    /// The end of the audit of a memory that is gone.
    pub fn deleted() -> AuditEnd {
        AuditEnd {
            status: AuditStatus::Success,
            action: None,
            reason: None,
            patch: json!({}),
        }
    }

    /// The end of the audit of a memory that may be there still.
    pub fn failed(error: &BackendError) -> AuditEnd {
        let mut extra = json!({"last_error": shown_error(&error.to_string())});
        if Self::is_doubt(error) {
            extra[MAY_BE_REMOVED] = json!(true);
        }
        AuditEnd {
            status: AuditStatus::Failed,
            action: Some(Action::Reject),
            reason: Some(format!("memory_delete:{}", error.word())),
            patch: json!({"extra": extra}),
        }
    }

    /// Whether a removal that failed so may have been done: it was sent, and not refused.
    pub fn is_doubt(error: &BackendError) -> bool {
        match error {
            BackendError::Unreachable(_) => false,
            BackendError::Unknown(_) | BackendError::Protocol(_) => true,
            BackendError::Api { status, .. } => *status >= 500 || *status == 408,
        }
    }

    /// Whether this is the audit of a removal of this memory that may have been done. One that was
    /// ended by reconciling, or has not ended, belongs to a gateway that died.
    pub fn may_have_removed(audit: &Audit, memory_id: &str, backend: &str) -> bool {
        let document = &audit.evidence_refs_json;
        let extra = &document["extra"];
        let was_open = audit.status == AuditStatus::Pending
            || audit.reason.as_deref() == Some("memory_delete:audit_timeout");
        extra["deleted_memory_id"] == memory_id
            && document["backend"] == backend
            && (was_open || extra[MAY_BE_REMOVED] == true)
    }
}
