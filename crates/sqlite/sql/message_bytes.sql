-- How many bytes messages have, in the order given. By primary key. ?1 JSON array of ids.
SELECT octet_length(m.payload) + octet_length(m.headers)
FROM json_each(?1) AS wanted CROSS JOIN message AS m ON m.id = wanted.value
