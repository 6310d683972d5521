-- Gives free turns. ?1 JSON array of [lane, group, message_id].
INSERT INTO turn (lane, "group", message_id)
SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?1)
