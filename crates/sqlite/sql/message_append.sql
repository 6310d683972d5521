-- Writes messages, ids given. ?1 JSON array of [id, queue, key, group, headers, payload], the last
-- two as text; ?2 created_at.
INSERT INTO message (id, queue, key, "group", created_at, headers, payload)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, ?2, value ->> 4, value ->> 5
FROM json_each(?1)
