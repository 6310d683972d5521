-- What a redrive would take first of the dead, by ascending id: $1 queue, $2 code, $3 how many, $4 whether also the erased.
SELECT message_id, queue, at, attempt_no, code, detail FROM consign.dead
    WHERE ($4 OR NOT erased) AND ($1::text IS NULL OR queue = $1) AND ($2::text IS NULL OR code = $2)
    ORDER BY message_id LIMIT $3
