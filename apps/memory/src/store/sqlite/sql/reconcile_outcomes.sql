-- Which of these memories, sent or dead, are still without the audit of that, oldest first. See
-- reconcile_missing. ?1 1 for the dead, 0 for the sent, ?2 JSON array of ids.
SELECT m.id, a.attempt_no, a.owner, a.code, a.detail, a.finished_at,
       CASE WHEN json_valid(a.result) THEN a.result END AS result
FROM message AS m
JOIN attempt AS a ON a.message_id = m.id
LEFT JOIN dead AS d ON d.message_id = m.id
WHERE m.queue = 'memory' AND m.id IN (SELECT value FROM json_each(?2))
  AND CASE WHEN ?1 THEN a.attempt_no = d.attempt_no ELSE a.outcome = 'delivered' END
  AND NOT EXISTS (
      SELECT 1 FROM write_audit AS w
      WHERE w.outbox_id = m.id
        AND CASE WHEN ?1
                 THEN w.reason GLOB 'outbox_flush_dead*'
                      AND coalesce(w.evidence_refs_json ->> '$.attempt_id'
                                   = printf('attempt-%08x%04x', m.id & 4294967295, a.attempt_no & 65535),
                                   1)
                 ELSE w.reason GLOB 'outbox_flush_success*'
                      OR w.reason GLOB 'outbox_flush_dedup_hit*' END)
ORDER BY a.finished_at, m.id
