-- Audits of rows that do not exist, oldest first. Uses write_audit_outbox. ?1 at most this many.
SELECT audit_id, outbox_id, created_at FROM write_audit
WHERE outbox_id IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM message WHERE id = outbox_id AND queue = 'memory')
ORDER BY created_at, audit_id LIMIT ?1
