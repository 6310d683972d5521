-- Messages with a key that begins with a text, in one queue or in every queue, as long as they are few: ordered
-- by nothing. Uses message_key once for each queue. ?1 queue or null, ?2 from this key, ?3 before this one,
-- ?4 at most this many.
SELECT m.id
FROM queue AS l
CROSS JOIN message AS m INDEXED BY message_key
    ON m.queue = l.name AND m.key IS NOT NULL AND m.key >= ?2 AND m.key < ?3
WHERE ?1 IS NULL OR l.name = ?1
LIMIT ?4
