-- The groups of these messages, in the order given. By primary key. ?1 JSON array of ids.
SELECT m.id, m."group"
FROM json_each(?1) AS wanted
CROSS JOIN message AS m ON m.id = wanted.value
WHERE m."group" IS NOT NULL
ORDER BY wanted.key
