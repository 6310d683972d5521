-- Rows of the outbox, newest first. Walks the queue by message_queue. ?1 status or null, ?2 at most
-- this many.
SELECT * FROM outbox_memory WHERE ?1 IS NULL OR status = ?1 ORDER BY outbox_id DESC LIMIT ?2
