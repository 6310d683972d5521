-- Every group head with the queue and group of its message, if that exists.
SELECT t.queue, t."group", t.message_id, m.queue IS t.queue AND m."group" IS t."group",
       EXISTS (SELECT 1 FROM waiting AS w WHERE w.queue = t.queue AND w."group" = t."group")
FROM group_head AS t
LEFT JOIN message AS m ON m.id = t.message_id
