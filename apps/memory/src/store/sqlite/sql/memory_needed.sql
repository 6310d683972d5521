-- Memories that something still refers to: an outcome without its audit, a request without the audit of
-- its deferral, a pending audit about the row, its request or its text. Uses write_audit_outbox and
-- write_audit_pending_since. ?1 first id, ?2 last id.
SELECT m.id FROM memory_message AS m
WHERE m.id >= ?1 AND m.id <= ?2
  AND (NOT EXISTS (SELECT 1 FROM write_audit
                   WHERE outbox_id = m.id
                     AND (reason GLOB 'outbox_flush_success*' OR reason GLOB 'outbox_flush_dedup_hit*'))
       AND NOT EXISTS (SELECT 1 FROM dead AS d JOIN write_audit AS w ON w.outbox_id = d.message_id
                       WHERE d.message_id = m.id AND w.reason GLOB 'outbox_flush_dead*'
                         AND coalesce(w.evidence_refs_json ->> '$.attempt_id'
                                      = printf('attempt-%08x%04x', m.id & 4294967295, d.attempt_no & 65535),
                                      1))
       OR m.headers ->> '$.correlation_id' IS NOT NULL
          AND NOT EXISTS (SELECT 1 FROM write_audit
                          WHERE outbox_id = m.id AND reason GLOB 'openmemory_write_failed:*')
       OR EXISTS (SELECT 1 FROM write_audit AS w
                  WHERE w.status = 'pending'
                    AND (w.outbox_id = m.id OR w.correlation_id = m.headers ->> '$.correlation_id'
                         OR w.payload_sha = m.payload_sha AND w.target_space = m.target_space)))
