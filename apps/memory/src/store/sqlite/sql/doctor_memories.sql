-- Messages of the queue of memories, some at a time. Uses message_queue. ?1 after this one, ?2 at most
-- this many.
SELECT id, key, "group", payload FROM message
WHERE queue = 'memory' AND id > ?1 ORDER BY id LIMIT ?2
