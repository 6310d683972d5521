//! Removals with an unknown result: the memory may be gone without an audit that records it.

use super::DELETED_MEMORY_ID;
use crate::{
    Audit, AuditFilter, AuditStatus, Caller, MemoryService, audit_json::MAY_BE_REMOVED,
    gateway::refused, tools::Refusal,
};

/// How many audits of one kind are read, newest first.
const AUDITS_MAX: u32 = 500;

/// Reason and status of the audits of such removals: pending ones, and those that ended without a
/// result.
const UNKNOWN_RESULTS: [(&str, AuditStatus); 5] = [
    ("memory_delete", AuditStatus::Pending),
    ("memory_delete:connection_error", AuditStatus::Failed),
    ("memory_delete:api_error_", AuditStatus::Failed),
    ("memory_delete:openmemory_error", AuditStatus::Failed),
    ("memory_delete:audit_timeout", AuditStatus::Failed),
];

impl MemoryService {
    /// The space of a missing memory, if an earlier request may have removed it from a space that the
    /// caller may use.
    pub(super) async fn may_be_removed(
        &self,
        memory_id: &str,
        caller: &Caller,
    ) -> Result<Option<String>, Refusal> {
        if self.backend().is_in(self.logbook()) {
            return Ok(None);
        }
        let backend = self.backend().identity();
        for (reason, status) in UNKNOWN_RESULTS {
            let filter = AuditFilter {
                reason_prefix: Some(reason.to_owned()),
                status: Some(status),
                ..AuditFilter::default()
            };
            let audits = self.logbook().audits(&filter, AUDITS_MAX).await;
            let audits = audits.map_err(refused)?;
            let is_match = |audit: &&Audit| {
                may_have_removed(audit, memory_id, &backend)
                    && self.may_use(caller, &audit.target_space)
            };
            if let Some(audit) = audits.iter().find(is_match) {
                return Ok(Some(audit.target_space.clone()));
            }
        }
        Ok(None)
    }
}

/// Whether this audit's removal of the memory may have happened. A pending audit, or one that
/// reconciliation ended, belongs to a gateway that died.
fn may_have_removed(audit: &Audit, memory_id: &str, backend: &str) -> bool {
    let document = &audit.evidence_refs_json;
    let extra = &document["extra"];
    let was_open = audit.status == AuditStatus::Pending
        || audit.reason.as_deref() == Some("memory_delete:audit_timeout");
    extra[DELETED_MEMORY_ID] == memory_id
        && document["backend"] == backend
        && (was_open || extra[MAY_BE_REMOVED] == true)
}
