-- Writes ready batches, in the order given.
-- ?1 JSON array of [queue, due_at, isolated, ids, tries, attempts].
INSERT INTO ready (queue, due_at, isolated, ids, tries, attempts)
SELECT value ->> 0, value ->> 1, value ->> 2, value -> 3, value -> 4, value -> 5
FROM json_each(?1)
ORDER BY key
