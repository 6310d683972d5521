-- What a worker recorded for these messages under a token; not the expiry of its lease.
-- Uses attempt's primary key. ?1 JSON array of ids, ?2 token, ?3 worker.
SELECT a.message_id, a.outcome, a.code, a.result
FROM json_each(?1) AS wanted
CROSS JOIN attempt AS a ON a.message_id = wanted.value
WHERE a.token = ?2 AND a.owner = ?3 AND (a.code IS NULL OR a.code <> 'lease_expired')
