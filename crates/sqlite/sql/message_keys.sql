-- The messages that hold these keys. Uses message_key. ?1 JSON array of [queue, key].
SELECT wanted.key, m.id, m."group", m.payload
FROM json_each(?1) AS wanted
CROSS JOIN message AS m ON m.queue = wanted.value ->> 0 AND m.key = wanted.value ->> 1
