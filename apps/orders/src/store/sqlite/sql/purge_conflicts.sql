-- Removes the conflict counts of purged keys, by primary key. ?1 JSON array of
-- [client, idempotency_key].
DELETE FROM idempo_conflict
WHERE (client, idempotency_key) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1))
