-- Every group head; whether its message exists, is of that group, and is not dead where the dead do not block; whether others
-- wait for it.
SELECT t.queue, t."group", t.message_id, m.queue IS t.queue AND m."group" IS t."group"
           AND NOT EXISTS (SELECT 1 FROM dead AS d JOIN queue AS q ON q.name = d.queue
                           WHERE d.message_id = t.message_id AND q.policy ->> '$.on_dead' = 'continue'),
       EXISTS (SELECT 1 FROM waiting AS w WHERE w.queue = t.queue AND w."group" = t."group")
FROM group_head AS t
LEFT JOIN message AS m ON m.id = t.message_id
