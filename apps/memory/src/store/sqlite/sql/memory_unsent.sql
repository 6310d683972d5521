-- Whether an outbox row for a backend is pending or dead; of a dead one that has left, its audit is
-- there. Uses message_key, attempt's key and write_audit_memory. ?1 key, ?2 backend, or null for any,
-- ?3 space, ?4 payload_sha.
SELECT EXISTS (
    SELECT 1 FROM memory_message AS m
    WHERE m.key >= ?1 AND m.key < ?1 || '$'
      AND (m.key = ?1 OR substr(m.key, length(?1) + 2) NOT GLOB '*[^0-9]*')
      AND coalesce(m.backend = ?2, 1)
      AND NOT EXISTS (SELECT 1 FROM attempt WHERE message_id = m.id AND outcome = 'delivered'))
    OR EXISTS (
    SELECT 1 FROM write_audit AS w
    WHERE w.payload_sha = ?4 AND w.target_space = ?3 AND w.reason GLOB 'outbox_flush_dead*'
      AND coalesce(w.evidence_refs_json ->> '$.backend' = ?2, 1)
      AND NOT EXISTS (SELECT 1 FROM message WHERE id = w.outbox_id)
      AND NOT EXISTS (SELECT 1 FROM write_audit AS s
                      WHERE s.outbox_id = w.outbox_id
                        AND (s.reason GLOB 'outbox_flush_success*' OR s.reason GLOB 'outbox_flush_dedup_hit*')))
