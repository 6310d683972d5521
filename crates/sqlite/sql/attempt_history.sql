-- Every attempt of a message, first to last, by primary key. ?1 message.
SELECT message_id, attempt_no, outcome, owner, fence, token, claimed_at, finished_at,
       code, detail, result, next_due_at
FROM attempt WHERE message_id = ?1 ORDER BY attempt_no
