-- Ids of messages, newest first: $1 queue, $2 below this id, $3 not below this one, $4 how many.
-- Walks the primary key backwards; $3 bounds that where a queue has few among many.
SELECT m.id FROM consign.message m
    WHERE ($1::text IS NULL OR m.queue = $1) AND m.id < $2 AND m.id >= $3
    ORDER BY m.id DESC LIMIT $4
