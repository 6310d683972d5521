-- Of these messages, those that exist, with their queues. By primary key. ?1 JSON array of ids.
SELECT m.id, m.queue FROM json_each(?1) AS wanted CROSS JOIN message AS m ON m.id = wanted.value
