-- What a worker gets to see of its messages, in the order given. By primary key.
-- ?1 JSON array of ids.
SELECT m.id, m.key, m."group", m.created_at, m.headers, m.payload
FROM json_each(?1) AS wanted
CROSS JOIN message AS m ON m.id = wanted.value
ORDER BY wanted.key
