-- Ids of messages whose turn has not come; parameters as in list_any.sql.
SELECT w.message_id AS id FROM consign.waiting w JOIN consign.message m ON m.id = w.message_id
    WHERE ($1::text IS NULL OR w.lane = $1) AND ($2::text IS NULL OR m.key = $2) AND $3::text IS NULL
        AND w.message_id < $4
    ORDER BY w.message_id DESC LIMIT $5
