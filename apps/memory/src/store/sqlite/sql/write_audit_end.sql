-- Ends a pending audit. ?1 audit, ?2 status, ?3 action, ?4 reason, ?5 evidence_refs_json, ?6 now.
UPDATE write_audit
SET status = ?2, action = ?3, reason = ?4, evidence_refs_json = ?5, updated_at = ?6
WHERE audit_id = ?1 AND status = 'pending'
