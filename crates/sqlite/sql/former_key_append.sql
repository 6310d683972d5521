-- Keeps the keys of messages that leave.
-- ?1 JSON array of [queue, key, message, when it was enqueued, whether it died, digest of its payload in hex, group,
-- whether it was discarded].
INSERT INTO former_key (queue, key, message_id, at, died, digest, "group", discarded)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, unhex(value ->> 5), value ->> 6, value ->> 7
FROM json_each(?1)
