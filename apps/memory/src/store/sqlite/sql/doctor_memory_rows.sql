-- Audits of outbox rows that do not exist. Uses write_audit_outbox.
SELECT audit_id, outbox_id FROM write_audit
WHERE outbox_id IS NOT NULL
  AND (reason GLOB 'openmemory_write_failed:*' OR reason GLOB 'outbox_*')
  AND NOT EXISTS (SELECT 1 FROM message WHERE id = outbox_id AND queue = 'memory')
ORDER BY audit_id
