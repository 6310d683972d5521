-- Passes turns on. ?1 queue, ?2 JSON array of [group, message_id].
UPDATE turn SET message_id = next.id
FROM (SELECT value ->> 0 AS "group", value ->> 1 AS id FROM json_each(?2)) AS next
WHERE turn.queue = ?1 AND turn."group" = next."group"
