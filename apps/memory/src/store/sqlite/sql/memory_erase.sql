-- Removes the error texts of audits, which may quote the memory: of those about rows that are erased, and of those of requests about
-- the same text that have no row. Uses write_audit_outbox and write_audit_memory. ?1 JSON array of messages.
UPDATE write_audit SET evidence_refs_json = json_remove(evidence_refs_json,
    '$.extra.last_error', '$.extra.error_message',
    '$.gateway_event.extra.last_error', '$.gateway_event.extra.error_message')
WHERE audit_id IN (
    SELECT w.audit_id FROM json_each(?1) AS gone CROSS JOIN write_audit AS w ON w.outbox_id = gone.value
    UNION ALL
    SELECT w.audit_id
    FROM json_each(?1) AS gone CROSS JOIN memory_message AS m ON m.id = gone.value
    CROSS JOIN write_audit AS w ON w.payload_sha = m.payload_sha AND w.target_space = m.target_space
    WHERE w.outbox_id IS NULL)
  AND coalesce(json_type(evidence_refs_json, '$.extra.last_error'),
               json_type(evidence_refs_json, '$.extra.error_message'),
               json_type(evidence_refs_json, '$.gateway_event.extra.last_error'),
               json_type(evidence_refs_json, '$.gateway_event.extra.error_message')) IS NOT NULL
