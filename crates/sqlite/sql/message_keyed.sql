-- Those of these messages that have a key, with what is kept of it. By primary key. ?1 JSON array of ids.
SELECT m.id, m.queue, m.key, m."group", m.created_at, m.payload,
       (SELECT lower(hex(digest)) FROM erasure WHERE message_id = m.id)
FROM json_each(?1) AS wanted
CROSS JOIN message AS m ON m.id = wanted.value
WHERE m.key IS NOT NULL
