-- Operator actions, newest first, along the primary key. ?1 unused, ?2 older than this entry,
-- ?3 at most this many.
SELECT id, at, actor, action, queue, message_id, reason FROM audit
WHERE ?1 IS NULL AND id < ?2 ORDER BY id DESC LIMIT ?3
