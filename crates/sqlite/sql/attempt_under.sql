-- The attempts a token's holder recorded for these messages; not those recorded against it.
-- Uses attempt's primary key. ?1 JSON array of ids, ?2 token.
SELECT a.message_id, a.attempt_no, a.outcome, a.next_due_at
FROM json_each(?1) AS wanted
CROSS JOIN attempt AS a ON a.message_id = wanted.value
WHERE a.token = ?2 AND (a.code IS NULL OR a.code <> 'lease_expired')
ORDER BY a.message_id, a.attempt_no DESC
