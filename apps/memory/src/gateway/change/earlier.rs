//! Removals whose answer was lost: the memory may be gone, and no audit says so.

use crate::{
    Audit, AuditFilter, AuditStatus, Caller, MemoryService, audit_json::DeleteAudit,
    gateway::refused, tools::Refusal,
};

/// How many audits of one kind are looked at, newest first.
const AUDITS_MAX: u32 = 500;

/// Which audits may be of a removal that arrived, by their reason and status: one that has not ended,
/// and those that ended without an answer.
const DOUBTS: [(&str, AuditStatus); 5] = [
    ("memory_delete", AuditStatus::Pending),
    ("memory_delete:connection_error", AuditStatus::Failed),
    ("memory_delete:api_error_", AuditStatus::Failed),
    ("memory_delete:openmemory_error", AuditStatus::Failed),
    ("memory_delete:audit_timeout", AuditStatus::Failed),
];

impl MemoryService {
    /// The space of a memory that is not there, if an earlier request may have removed it from a space
    /// that is open to the caller.
    pub(super) async fn may_be_removed(
        &self,
        memory_id: &str,
        caller: &Caller,
    ) -> Result<Option<String>, Refusal> {
        if self.backend().is_in(self.logbook()) {
            return Ok(None);
        }
        let backend = self.backend().identity();
        for (reason, status) in DOUBTS {
            let filter = AuditFilter {
                reason_prefix: Some(reason.to_owned()),
                status: Some(status),
                ..AuditFilter::default()
            };
            let audits = self.logbook().audits(&filter, AUDITS_MAX).await;
            let audits = audits.map_err(refused)?;
            let is_it = |audit: &&Audit| {
                DeleteAudit::may_have_removed(audit, memory_id, &backend)
                    && self.may_use(caller, &audit.target_space)
            };
            if let Some(audit) = audits.iter().find(is_it) {
                return Ok(Some(audit.target_space.clone()));
            }
        }
        Ok(None)
    }
}
