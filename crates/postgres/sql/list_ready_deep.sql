-- The same as list_ready.sql where the batches are many: from the newest message, what is in no other place.
SELECT m.id FROM consign.message m
    WHERE ($1::text IS NULL OR m.queue = $1) AND m.id < $2 AND m.id >= $3
        AND NOT EXISTS (SELECT FROM consign.attempt a WHERE a.message_id = m.id AND a.outcome = 'delivered')
        AND NOT EXISTS (SELECT FROM consign.dead d WHERE d.message_id = m.id)
        AND NOT EXISTS (SELECT FROM consign.discarded x WHERE x.message_id = m.id)
        AND NOT EXISTS (SELECT FROM consign.held h WHERE h.message_id = m.id)
        AND NOT EXISTS (SELECT FROM consign.waiting w WHERE w.message_id = m.id)
        AND m.id NOT IN (SELECT unnest(ids) FROM consign.lease)
    ORDER BY m.id DESC LIMIT $4
