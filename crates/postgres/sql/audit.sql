-- Operator actions, newest first, along the primary key: $1 older than this entry, $2 how many.
SELECT id, at, actor, action, queue, message_id, reason FROM consign.audit
    WHERE id < $1 ORDER BY id DESC LIMIT $2
