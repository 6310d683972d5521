-- What a redrive would take first, by ascending id, without the erased: $1 queue, $2 code, $3 how many.
SELECT message_id, queue, at, attempt_no, code, detail FROM consign.dead
    WHERE NOT erased AND ($1::text IS NULL OR queue = $1) AND ($2::text IS NULL OR code = $2)
    ORDER BY message_id LIMIT $3
