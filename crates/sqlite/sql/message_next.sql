-- The first message after an id, and when it was enqueued. By primary key. ?1 id.
SELECT id, created_at FROM message WHERE id > ?1 ORDER BY id LIMIT 1
