-- Ids of messages with a correlation id, by message_correlation; parameters as in list_key.sql ($6 unused).
-- Where they are as in list.sql: consign.state_of() would look through all leases for each of them.
SELECT m.id FROM consign.message m
    WHERE m.headers ? 'correlation_id' AND left(m.headers->>'correlation_id', 200) = left($8::text, 200) COLLATE "C"
        AND m.headers->'correlation_id' = to_jsonb($8::text) AND m.id < $2 AND m.id >= $3
        AND ($1::text IS NULL OR m.queue = $1) AND $6::text IS NULL
        AND ($5::text IS NULL OR EXISTS (SELECT FROM consign.dead d WHERE d.message_id = m.id AND d.code = $5))
        AND ($7::text IS NULL OR $7 = CASE
            WHEN EXISTS (SELECT FROM consign.dead d WHERE d.message_id = m.id) THEN 'dead'
            WHEN EXISTS (SELECT FROM consign.held h WHERE h.message_id = m.id) THEN 'held'
            WHEN EXISTS (SELECT FROM consign.waiting w WHERE w.message_id = m.id) THEN 'waiting'
            WHEN EXISTS (SELECT FROM consign.attempt a WHERE a.message_id = m.id AND a.outcome = 'delivered') THEN 'delivered'
            WHEN EXISTS (SELECT FROM consign.discarded x WHERE x.message_id = m.id) THEN 'discarded'
            WHEN m.id IN (SELECT unnest(l.ids) FROM consign.lease l) THEN 'leased'
            ELSE 'ready'
        END)
    ORDER BY m.id DESC LIMIT $4
