-- Messages of the queue of memories, some at a time, but for erased ones: nothing of them can be compared.
-- Uses message_queue. ?1 after this one, ?2 at most this many.
SELECT id, key, "group", payload FROM message
WHERE queue = 'memory' AND id > ?1 AND NOT EXISTS (SELECT 1 FROM erasure WHERE message_id = message.id)
ORDER BY id LIMIT ?2
