-- The messages of payments, by their place in the array. ?1 JSON array of outbox ids.
SELECT wanted.key, p.message_id
FROM json_each(?1) AS wanted CROSS JOIN payment AS p ON p.outbox_id = wanted.value
