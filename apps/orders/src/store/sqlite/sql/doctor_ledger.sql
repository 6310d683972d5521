-- Rows of the ledger whose message does not exist.
SELECT l.client, l.idempotency_key, l.outbox_id FROM idempo_ledger AS l
WHERE l.outbox_id IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM message WHERE id = l.outbox_id AND queue = 'orders')
ORDER BY l.outbox_id
