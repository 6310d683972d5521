-- Rows of the outbox by their ids. Unnests the queue's ready batches and leases once.
-- ?1 JSON array of ids.
SELECT * FROM outbox_memory WHERE outbox_id IN (SELECT value FROM json_each(?1))
