-- The rows of a memory whose keys are kept, by number, with the backend and the id under which they were
-- stored. Of a row that has left, its audits have them. Uses message_key, former_key's key and
-- write_audit_outbox. ?1 key.
WITH own (n, id, has_left) AS (
    SELECT CASE key WHEN ?1 THEN 1 ELSE CAST(substr(key, length(?1) + 2) AS INTEGER) END, id, has_left
    FROM (SELECT key, id, 0 AS has_left FROM message
          WHERE queue = 'memory' AND key >= ?1 AND key < ?1 || '$'
          UNION ALL
          SELECT key, message_id, 1 FROM former_key
          WHERE queue = 'memory' AND key >= ?1 AND key < ?1 || '$')
    WHERE key = ?1 OR substr(key, length(?1) + 2) NOT GLOB '*[^0-9]*'
)
SELECT own.n, own.has_left,
       CASE WHEN own.has_left THEN w.evidence_refs_json ->> '$.backend'
            ELSE coalesce(a.result ->> '$.backend', m.headers ->> '$.backend') END AS backend,
       CASE WHEN own.has_left THEN w.evidence_refs_json ->> '$.memory_id'
            ELSE a.result ->> '$.memory_id' END AS memory_id
FROM own
LEFT JOIN message AS m ON m.id = own.id
LEFT JOIN (SELECT message_id, CASE WHEN json_valid(result) THEN result END AS result
           FROM attempt WHERE outcome = 'delivered') AS a ON a.message_id = own.id
LEFT JOIN write_audit AS w ON own.has_left AND w.audit_id = (
    SELECT max(audit_id) FROM write_audit
    WHERE outbox_id = own.id
      AND (reason GLOB 'outbox_flush_success*' OR reason GLOB 'outbox_flush_dedup_hit*'
           OR reason GLOB 'outbox_flush_dead*'))
ORDER BY own.n
