-- Ids of held messages; parameters as in list_any.sql. Primary key of held, or held_lane.
SELECT h.message_id AS id FROM consign.held h JOIN consign.message m ON m.id = h.message_id
    WHERE ($1::text IS NULL OR h.lane = $1) AND ($2::text IS NULL OR m.key = $2) AND $3::text IS NULL
        AND h.message_id < $4
    ORDER BY h.message_id DESC LIMIT $5
