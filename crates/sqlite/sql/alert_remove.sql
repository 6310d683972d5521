-- Removes alerts that nothing depends on any more. ?1 JSON array of [queue, reason, code].
DELETE FROM alert
WHERE (queue, reason, code) IN (SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?1))
