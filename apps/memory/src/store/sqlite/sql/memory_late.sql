-- Late results of a token about memories that have no audit yet, with the current state of the memories.
-- ?1 JSON array of messages, ?2 token.
SELECT l.message_id, l.fence, l.owner, l.outcome, l.code, l.detail,
       CASE WHEN json_valid(l.result) THEN l.result ->> '$.memory_id' END AS memory_id,
       coalesce((SELECT attempt_no FROM attempt WHERE message_id = l.message_id AND token = l.token),
                (SELECT coalesce(max(attempt_no), 0) + 1 FROM attempt
                 WHERE message_id = l.message_id)) AS attempt_no,
       o.status, o.locked_by
FROM late AS l JOIN outbox_memory AS o ON o.outbox_id = l.message_id
WHERE l.message_id IN (SELECT value FROM json_each(?1)) AND l.token = ?2
  AND NOT EXISTS (SELECT 1 FROM write_audit
                  WHERE outbox_id = l.message_id AND reason = 'outbox_flush_conflict'
                    AND correlation_id = printf('corr-%016x', l.fence))
ORDER BY l.message_id
