-- Messages that died with a code, newest first. Uses dead_code.
-- ?1 queue or null, ?2 code, ?3 smaller than this id, ?4 at most this many.
SELECT message_id, queue, at, attempt_no, code, detail FROM dead INDEXED BY dead_code
WHERE code = ?2 AND message_id < ?3 AND (?1 IS NULL OR queue = ?1)
ORDER BY message_id DESC LIMIT ?4
