-- Operator actions on one message, newest first, by the primary key: parameters as in audit.sql, $3 message. One that was
-- purged has its sign changed.
SELECT id, at, actor, action, queue, abs(message_id) AS message_id, reason FROM consign.audit
    WHERE message_id IN (nullif($3::bigint, 0), -nullif($3::bigint, 0)) AND id < $1 ORDER BY id DESC LIMIT $2
