-- What a worker gets to see of its messages. By primary key. CROSS JOIN keeps the order of the
-- array; an ORDER BY would copy every payload into a sorter. ?1 belongs to a statement run before
-- (ready_remove); ?2 JSON array of ids.
SELECT m.id, m.key, m."group", m.created_at, m.headers, m.payload
FROM json_each(?2) AS wanted
CROSS JOIN message AS m ON m.id = wanted.value
