-- Ids of messages with a key that begins with a text, as long as they are few, by the primary key of message_key,
-- which is ordered by bytes: $1 queue, $2 from this key, $3 before this one, $4 how many.
SELECT k.message_id AS id FROM consign.queue q CROSS JOIN LATERAL (
        SELECT message_id FROM consign.message_key
            WHERE queue = q.name AND key >= $2 AND key < $3 LIMIT $4) k
    WHERE $1::text IS NULL OR q.name = $1
    LIMIT $4
