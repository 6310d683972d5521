-- Writes alerts that have changed. ?1 JSON array of [[queue, reason, code], pending, first_at, last_at, message_id,
-- alerted_at, failure].
INSERT INTO alert (queue, reason, code, pending, first_at, last_at, message_id, alerted_at, failure)
SELECT value ->> '$[0][0]', value ->> '$[0][1]', value ->> '$[0][2]', value ->> 1, value ->> 2, value ->> 3, value ->> 4,
       value ->> 5, value ->> 6
FROM json_each(?1) WHERE true
ON CONFLICT (queue, reason, code) DO UPDATE SET
    pending = excluded.pending, first_at = excluded.first_at, last_at = excluded.last_at,
    message_id = excluded.message_id, alerted_at = excluded.alerted_at, failure = excluded.failure
