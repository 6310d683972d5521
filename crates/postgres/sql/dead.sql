-- Dead messages, newest first: $1 queue, $2 code, $3 below this id, $4 how many.
SELECT message_id, queue, at, attempt_no, code, detail FROM consign.dead
    WHERE ($1::text IS NULL OR queue = $1) AND ($2::text IS NULL OR code = $2) AND message_id < $3
    ORDER BY message_id DESC LIMIT $4
