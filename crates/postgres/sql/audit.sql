-- Operator actions, newest first: $1 message or NULL for all, $2 older than this entry, $3 how many.
SELECT id, at, actor, action, lane, message_id, reason FROM consign.audit
    WHERE ($1::bigint IS NULL OR message_id = $1) AND id < $2
    ORDER BY id DESC LIMIT $3
