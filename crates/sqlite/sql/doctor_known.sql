-- Of these messages, those that exist, with their lanes. By primary key. ?1 JSON array of ids.
SELECT m.id, m.lane FROM json_each(?1) AS wanted CROSS JOIN message AS m ON m.id = wanted.value
