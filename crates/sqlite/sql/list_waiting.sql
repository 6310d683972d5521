-- Waiting messages, newest first, along waiting_message.
-- ?1 queue or null, ?2 smaller than this id, ?3 at most this many.
SELECT message_id FROM waiting
WHERE message_id < ?2 AND (?1 IS NULL OR queue = ?1)
ORDER BY message_id DESC LIMIT ?3
