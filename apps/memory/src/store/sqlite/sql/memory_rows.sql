-- The rows of a memory whose keys are kept, by number, with the backend and the id under which they were
-- stored. Of a row that has left or was erased, its audits have them. Uses message_key, former_key's key and
-- write_audit_outbox. ?1 key.
WITH own (n, id, is_gone) AS (
    SELECT CASE key WHEN ?1 THEN 1 ELSE CAST(substr(key, length(?1) + 2) AS INTEGER) END, id, is_gone
    FROM (SELECT key, id, EXISTS (SELECT 1 FROM erasure WHERE message_id = message.id) AS is_gone FROM message
          WHERE queue = 'memory' AND key >= ?1 AND key < ?1 || '$'
          UNION ALL
          SELECT key, message_id, 1 FROM former_key
          WHERE queue = 'memory' AND key >= ?1 AND key < ?1 || '$')
    WHERE key = ?1 OR substr(key, length(?1) + 2) NOT GLOB '*[^0-9]*'
)
SELECT own.n, own.is_gone,
       coalesce(a.result ->> '$.backend', m.headers ->> '$.backend', w.evidence_refs_json ->> '$.backend') AS backend,
       coalesce(a.result ->> '$.memory_id', w.evidence_refs_json ->> '$.memory_id') AS memory_id
FROM own
LEFT JOIN message AS m ON m.id = own.id
LEFT JOIN (SELECT message_id, CASE WHEN json_valid(result) THEN result END AS result
           FROM attempt WHERE outcome = 'delivered') AS a ON a.message_id = own.id
LEFT JOIN write_audit AS w ON own.is_gone AND w.audit_id = (
    SELECT max(audit_id) FROM write_audit
    WHERE outbox_id = own.id
      AND (reason GLOB 'outbox_flush_success*' OR reason GLOB 'outbox_flush_dedup_hit*'
           OR reason GLOB 'outbox_flush_dead*'))
ORDER BY own.n
