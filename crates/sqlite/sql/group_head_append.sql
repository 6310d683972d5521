-- Makes messages heads of groups without one. ?1 JSON array of [queue, group, message_id].
INSERT INTO group_head (queue, "group", message_id)
SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?1)
