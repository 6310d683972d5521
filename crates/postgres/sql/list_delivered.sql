-- Ids of delivered messages; parameters as in list_any.sql.
SELECT m.id FROM consign.message m
    WHERE ($1::text IS NULL OR m.lane = $1) AND ($2::text IS NULL OR m.key = $2) AND $3::text IS NULL
        AND m.id < $4
        AND EXISTS (SELECT FROM consign.attempt a WHERE a.message_id = m.id AND a.outcome = 'delivered')
    ORDER BY m.id DESC LIMIT $5
