-- Ids of messages with a correlation id, by message_correlation; parameters as in list_key.sql ($6 unused).
SELECT m.id FROM consign.message m
    WHERE m.headers ? 'correlation_id' AND left(m.headers->>'correlation_id', 200) = left($8::text, 200)
        AND m.headers->'correlation_id' = to_jsonb($8::text) AND m.id < $2 AND m.id >= $3
        AND ($1::text IS NULL OR m.lane = $1) AND $6::text IS NULL
        AND ($5::text IS NULL OR EXISTS (SELECT FROM consign.dead d WHERE d.message_id = m.id AND d.code = $5))
        AND ($7::text IS NULL OR consign.state_of(m.id) = $7)
    ORDER BY m.id DESC LIMIT $4
