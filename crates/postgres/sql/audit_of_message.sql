-- Operator actions on one message, newest first, by audit_message: parameters as in audit.sql, $3 message.
SELECT id, at, actor, action, queue, message_id, reason FROM consign.audit
    WHERE message_id = $3 AND id < $1 ORDER BY id DESC LIMIT $2
