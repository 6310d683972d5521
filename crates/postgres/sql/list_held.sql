-- Ids of held messages; parameters as in list_any.sql. Primary key of held, or held_queue.
SELECT h.message_id AS id FROM consign.held h
    WHERE ($1::text IS NULL OR h.queue = $1) AND h.message_id < $2 AND h.message_id >= $3
    ORDER BY h.message_id DESC LIMIT $4
