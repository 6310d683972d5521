-- The last stored memory: the last audit with its id, else the last audit of a row that was sent without
-- one (uses write_audit_memory), else the row that was sent without an audit (uses message_key and
-- attempt's key). ?1 key, ?2 space, ?3 payload_sha, ?4 backend, or null for any.
WITH own (n, id, backend) AS (
    SELECT CASE key WHEN ?1 THEN 1 ELSE CAST(substr(key, length(?1) + 2) AS INTEGER) END, id, backend
    FROM memory_message
    WHERE key >= ?1 AND key < ?1 || '$'
      AND (key = ?1 OR substr(key, length(?1) + 2) NOT GLOB '*[^0-9]*')
)
SELECT outbox_id, memory_id FROM (
    SELECT coalesce(outbox_id, CASE WHEN json_type(evidence_refs_json, '$.original_outbox_id') = 'integer'
                                    THEN evidence_refs_json ->> '$.original_outbox_id' END) AS outbox_id,
           evidence_refs_json ->> '$.memory_id' AS memory_id,
           CASE WHEN json_type(evidence_refs_json, '$.memory_id') = 'text' THEN 1 ELSE 2 END AS place,
           -audit_id AS nth
    FROM write_audit
    WHERE payload_sha = ?3 AND target_space = ?2 AND status = 'success'
      AND (json_type(evidence_refs_json, '$.memory_id') = 'text'
           AND evidence_refs_json ->> '$.gateway_event.operation' = 'memory_store'
           OR evidence_refs_json ->> '$.gateway_event.operation' IN ('outbox_flush', 'outbox_reconcile'))
      AND (?4 IS NULL OR coalesce(evidence_refs_json ->> '$.backend', ?4) = ?4)
    UNION ALL
    SELECT own.id, CASE WHEN json_valid(a.result) THEN a.result ->> '$.memory_id' END, 3, own.n
    FROM own JOIN attempt AS a ON a.message_id = own.id AND a.outcome = 'delivered'
    WHERE ?4 IS NULL
       OR coalesce(CASE WHEN json_valid(a.result) THEN a.result ->> '$.backend' END,
                   own.backend, ?4) = ?4
)
ORDER BY place, nth LIMIT 1
