-- Audits of rows that do not exist, oldest first. A sent or dead row below the last departure's cursor has
-- left. Uses write_audit_outbox. ?1 at most this many.
SELECT audit_id, outbox_id, created_at FROM write_audit AS w
WHERE outbox_id IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM message WHERE id = w.outbox_id AND queue = 'memory')
  AND NOT (outbox_id <= (SELECT coalesce(max(cursor), 0) FROM departure WHERE state = 'leaving')
           AND EXISTS (SELECT 1 FROM write_audit AS o
                       WHERE o.outbox_id = w.outbox_id
                         AND (o.reason GLOB 'outbox_flush_success*' OR o.reason GLOB 'outbox_flush_dedup_hit*'
                              OR o.reason GLOB 'outbox_flush_dead*')))
ORDER BY created_at, audit_id LIMIT ?1
