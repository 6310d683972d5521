-- Facts of memories for the audits of their attempts. ?1 JSON array of [message, attempt_no].
-- `failures` are the attempts that failed since the last requeue, up to this one; an attempt before
-- it that was not retried ended before a requeue.
SELECT m.id, wanted.value ->> 1 AS attempt_no,
       m.target_space, m.payload_sha,
       length(m.payload ->> '$.payload_md') AS payload_len,
       m.headers ->> '$.actor_user_id' AS actor_user_id,
       m.backend,
       (SELECT count(*) FROM attempt
        WHERE message_id = m.id AND attempt_no <= wanted.value ->> 1
          AND attempt_no > coalesce((SELECT max(attempt_no) FROM attempt
                                     WHERE message_id = m.id AND attempt_no < wanted.value ->> 1
                                       AND next_due_at IS NULL), 0)
          AND outcome IN ('retry', 'uncertain') AND next_due_at IS NOT NULL
          AND coalesce(code, '') NOT IN ('lease_expired', 'misdirected')) AS failures
FROM json_each(?1) AS wanted CROSS JOIN memory_message AS m ON m.id = wanted.value ->> 0
ORDER BY wanted.key
