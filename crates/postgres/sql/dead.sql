-- Dead messages, newest first: $1 lane, $2 code, $3 below this id, $4 how many.
SELECT message_id, lane, at, attempt_no, code, detail FROM consign.dead
    WHERE ($1::text IS NULL OR lane = $1) AND ($2::text IS NULL OR code = $2) AND message_id < $3
    ORDER BY message_id DESC LIMIT $4
