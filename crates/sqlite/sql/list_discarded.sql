-- Discarded messages, newest first, along the primary key.
-- ?1 queue or null, ?2 smaller than this id, ?3 at most this many.
SELECT message_id FROM discarded
WHERE message_id < ?2 AND (?1 IS NULL OR queue = ?1)
ORDER BY message_id DESC LIMIT ?3
