-- Ids of discarded messages; parameters as in list_any.sql. Primary key of discarded, or discarded_queue.
SELECT x.message_id AS id FROM consign.discarded x
    WHERE ($1::text IS NULL OR x.queue = $1) AND x.message_id < $2 AND x.message_id >= $3
    ORDER BY x.message_id DESC LIMIT $4
