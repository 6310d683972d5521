-- Operator actions on one message, newest first. Uses audit_message.
-- ?1 message, ?2 older than this entry, ?3 at most this many.
SELECT id, at, actor, action, queue, message_id, reason FROM audit
WHERE message_id = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3
