-- Keys of messages that have left, although the message or the key is in the store.
SELECT DISTINCT m.id, f.queue, f.key FROM former_key AS f
CROSS JOIN message AS m ON m.id = f.message_id OR m.queue = f.queue AND m.key = f.key
ORDER BY m.id LIMIT 1000
