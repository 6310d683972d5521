-- Rows of the outbox by their ids. Takes the queue's ready runs and leases apart once.
-- ?1 JSON array of ids.
SELECT * FROM outbox_memory WHERE outbox_id IN (SELECT value FROM json_each(?1))
