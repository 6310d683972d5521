-- The heads of these groups, by primary key. ?1 JSON array of [queue, group].
SELECT wanted.key, t.message_id
FROM json_each(?1) AS wanted
CROSS JOIN group_head AS t ON t.queue = wanted.value ->> 0 AND t."group" = wanted.value ->> 1
