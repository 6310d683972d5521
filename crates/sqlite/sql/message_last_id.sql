-- The newest message's id; messages are never deleted, so the next one is free.
SELECT coalesce(max(id), 0) FROM message
