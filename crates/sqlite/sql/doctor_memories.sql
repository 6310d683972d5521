-- Messages of the lane of memories, some at a time. Uses message_lane. ?1 after this one, ?2 at most
-- this many.
SELECT id, key, "group", payload FROM message
WHERE lane = 'memory' AND id > ?1 ORDER BY id LIMIT ?2
