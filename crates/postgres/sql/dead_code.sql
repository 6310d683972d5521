-- The same as dead.sql for one code, by dead_code.
SELECT message_id, queue, at, attempt_no, code, detail FROM consign.dead
    WHERE code = $2 AND ($1::text IS NULL OR queue = $1) AND message_id < $3
    ORDER BY message_id DESC LIMIT $4
