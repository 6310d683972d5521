-- The dead a redrive takes next, along the primary key. ?1 queue or null, ?2 code or null,
-- ?3 greater than this id, ?4 dead since then at the latest, ?5 at most this many.
SELECT message_id FROM dead
WHERE message_id > ?3 AND at <= ?4 AND (?1 IS NULL OR queue = ?1) AND (?2 IS NULL OR code = ?2)
ORDER BY message_id LIMIT ?5
