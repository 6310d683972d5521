-- Removes the conflict counts of orders whose messages have left. ?1 JSON array of ids.
DELETE FROM idempo_conflict
WHERE (client, idempotency_key) IN (SELECT client, idempotency_key FROM idempo_ledger
                                    WHERE outbox_id IN (SELECT value FROM json_each(?1)))
