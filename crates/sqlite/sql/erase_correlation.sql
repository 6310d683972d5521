-- The next messages with a correlation id, by id. Uses message_correlation.
-- ?1 correlation id, ?2 greater than this id, ?3 at most this many.
SELECT m.id FROM message AS m
WHERE instr(m.headers, '"correlation_id"') > 0 AND m.headers ->> '$.correlation_id' = ?1
  AND json_type(m.headers, '$.correlation_id') = 'text' AND m.id > ?2
ORDER BY m.id LIMIT ?3
