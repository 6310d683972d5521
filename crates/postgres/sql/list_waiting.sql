-- Ids of messages behind the head of their group; parameters as in list_any.sql.
SELECT w.message_id AS id FROM consign.waiting w
    WHERE ($1::text IS NULL OR w.queue = $1) AND w.message_id < $2 AND w.message_id >= $3
    ORDER BY w.message_id DESC LIMIT $4
