-- Ids of dead messages; parameters as in list_any.sql. Primary key of dead, or dead_queue.
SELECT d.message_id AS id FROM consign.dead d
    WHERE ($1::text IS NULL OR d.queue = $1) AND d.message_id < $2 AND d.message_id >= $3
    ORDER BY d.message_id DESC LIMIT $4
