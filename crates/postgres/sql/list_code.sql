-- Ids of messages that died with a code, by dead_code; parameters as in list_any.sql, $5 code.
SELECT d.message_id AS id FROM consign.dead d
    WHERE d.code = $5 AND ($1::text IS NULL OR d.queue = $1) AND d.message_id < $2 AND d.message_id >= $3
    ORDER BY d.message_id DESC LIMIT $4
