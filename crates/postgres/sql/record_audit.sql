-- Operator actions on messages ($1 bigint[]), oldest first, by the primary key.
SELECT id, at, actor, action, queue, message_id, reason FROM consign.audit
    WHERE message_id = ANY ($1) AND message_id BETWEEN consign.least_id($1) AND consign.greatest_id($1) ORDER BY message_id, id
