-- How many dead messages fit: $1 queue, $2 code, $3 count no further.
SELECT count(*) AS count FROM (
    SELECT FROM consign.dead
        WHERE ($1::text IS NULL OR queue = $1) AND ($2::text IS NULL OR code = $2) LIMIT $3) AS fitting
