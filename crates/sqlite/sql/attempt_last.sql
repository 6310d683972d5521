-- The last attempt of a message, by primary key. ?1 message.
SELECT attempt_no, outcome, owner, finished_at, code, detail
FROM attempt WHERE message_id = ?1 ORDER BY attempt_no DESC LIMIT 1
