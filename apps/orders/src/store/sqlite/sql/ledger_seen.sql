-- Updates last_seen_at of keys, by primary key. ?1 JSON array of [client, idempotency_key],
-- ?2 now.
UPDATE idempo_ledger SET last_seen_at = ?2
FROM json_each(?1) AS seen
WHERE client = seen.value ->> 0 AND idempotency_key = seen.value ->> 1
