-- Audits that have been pending for too long. Uses write_audit_pending_since. ?1 before.
SELECT count(*), min(audit_id) FROM write_audit WHERE status = 'pending' AND created_at < ?1
