-- Writes messages, ids given. ?1 JSON array of [id, queue, key, group, headers, payload, expires_at], headers and payload as
-- text; ?2 created_at.
INSERT INTO message (id, queue, key, "group", created_at, expires_at, headers, payload)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, ?2, value ->> 6, value ->> 4, value ->> 5
FROM json_each(?1)
