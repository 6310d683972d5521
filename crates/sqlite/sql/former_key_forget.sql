-- Removes keys of messages that have left. Uses former_key_at. ?1 JSON array of [queue, enqueued then or before],
-- ?2 at most this many.
DELETE FROM former_key WHERE (queue, key) IN (
    SELECT f.queue, f.key FROM json_each(?1) AS wanted
    CROSS JOIN former_key AS f ON f.queue = wanted.value ->> 0 AND f.at <= wanted.value ->> 1
    LIMIT ?2)
RETURNING queue, message_id
