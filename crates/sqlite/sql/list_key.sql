-- Messages with a key, in one queue or in every queue. Uses message_key once for each queue.
-- ?1 queue or null, ?2 smaller than this id, ?3 at most this many, ?4 key, ?5 correlation id or null.
SELECT m.id
FROM queue AS l
CROSS JOIN message AS m ON m.queue = l.name AND m.key = ?4
WHERE (?1 IS NULL OR l.name = ?1) AND m.id < ?2
  AND (?5 IS NULL OR (json_type(m.headers, '$.correlation_id') = 'text'
                      AND m.headers ->> '$.correlation_id' = ?5))
ORDER BY m.id DESC LIMIT ?3
