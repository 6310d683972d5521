-- Audits that have been pending for too long, oldest first. Uses write_audit_pending_since.
-- ?1 before, ?2 at most this many.
SELECT audit_id, outbox_id, reason, correlation_id, created_at FROM write_audit
WHERE status = 'pending' AND created_at < ?1
ORDER BY created_at, audit_id LIMIT ?2
