-- Lets messages wait behind the head of their group.
-- ?1 JSON array of [queue, group, message_id, due_at, tries, attempts].
INSERT INTO waiting (queue, "group", message_id, due_at, tries, attempts)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5
FROM json_each(?1)
