-- Ids of messages with a key, at most one of each queue, by message_key; parameters as in list_any.sql,
-- $5 code, $6 key, $7 state, $8 correlation id. What the index does not say is looked at one by one.
SELECT m.id FROM consign.queue l JOIN consign.message_key k ON k.queue = l.name AND k.key = $6
    JOIN consign.message m ON m.id = k.message_id
    WHERE ($1::text IS NULL OR l.name = $1) AND m.id < $2 AND m.id >= $3
        AND ($5::text IS NULL OR EXISTS (SELECT FROM consign.dead d WHERE d.message_id = m.id AND d.code = $5))
        AND ($7::text IS NULL OR consign.state_of(m.id) = $7)
        AND ($8::text IS NULL OR m.headers->'correlation_id' = to_jsonb($8::text))
    ORDER BY m.id DESC LIMIT $4
