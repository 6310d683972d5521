-- Audits of outbox rows that do not exist and have not left, see reconcile_rowless. Uses
-- write_audit_outbox.
SELECT audit_id, outbox_id FROM write_audit AS w
WHERE outbox_id IS NOT NULL
  AND (reason GLOB 'openmemory_write_failed:*' OR reason GLOB 'outbox_*')
  AND NOT EXISTS (SELECT 1 FROM message WHERE id = w.outbox_id AND queue = 'memory')
  AND NOT (outbox_id <= (SELECT coalesce(max(cursor), 0) FROM departure WHERE state = 'leaving')
           AND EXISTS (SELECT 1 FROM write_audit AS o
                       WHERE o.outbox_id = w.outbox_id
                         AND (o.reason GLOB 'outbox_flush_success*' OR o.reason GLOB 'outbox_flush_dedup_hit*'
                              OR o.reason GLOB 'outbox_flush_dead*')))
ORDER BY audit_id
