-- The pending audit of a request. Uses write_audit_pending. ?1 correlation_id.
SELECT audit_id, action, reason, evidence_refs_json
FROM write_audit WHERE correlation_id = ?1 AND status = 'pending'
