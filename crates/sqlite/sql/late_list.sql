-- The late results about one message, in order of arrival. Uses the primary key. ?1 message.
SELECT message_id, token, fence, owner, outcome, code, detail, result, at FROM late
WHERE message_id = ?1 ORDER BY at, fence
