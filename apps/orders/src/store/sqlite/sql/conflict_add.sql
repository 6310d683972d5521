-- Counts conflicts. ?1 JSON array of [client, idempotency_key, how many more].
INSERT INTO idempo_conflict (client, idempotency_key, conflicts)
SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?1) WHERE true
ON CONFLICT (client, idempotency_key) DO UPDATE SET conflicts = conflicts + excluded.conflicts
