-- Operator actions, newest first, along audit_id of every range: $1 older than this entry, $2 how many.
SELECT id, at, actor, action, queue, nullif(abs(message_id), 0) AS message_id, reason FROM consign.audit
    WHERE id < $1 ORDER BY id DESC LIMIT $2
