-- Promotes the next messages. ?1 queue, ?2 JSON array of [group, message_id].
UPDATE group_head SET message_id = next.id
FROM (SELECT value ->> 0 AS "group", value ->> 1 AS id FROM json_each(?2)) AS next
WHERE group_head.queue = ?1 AND group_head."group" = next."group"
