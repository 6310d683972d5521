-- Ids of messages, newest first: $1 lane, $2 key, $3 dead code (unused here), $4 below this id, $5 how many.
-- Walks the primary key backwards; with lane and key, the unique index on them.
SELECT m.id FROM consign.message m
    WHERE ($1::text IS NULL OR m.lane = $1) AND ($2::text IS NULL OR m.key = $2) AND $3::text IS NULL
        AND m.id < $4
    ORDER BY m.id DESC LIMIT $5
