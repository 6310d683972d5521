-- Ids of delivered messages; parameters as in list_any.sql. Walks the primary key of attempt
-- backwards: what was never tried costs nothing.
SELECT a.message_id AS id FROM consign.attempt a
    WHERE a.message_id < $2 AND a.message_id >= $3 AND a.outcome = 'delivered'
        AND ($1::text IS NULL OR (SELECT m.queue FROM consign.message m WHERE m.id = a.message_id) = $1)
    ORDER BY a.message_id DESC LIMIT $4
