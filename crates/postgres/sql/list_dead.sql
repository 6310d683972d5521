-- Ids of dead messages; parameters as in list_any.sql. Primary key of dead, or dead_lane.
SELECT d.message_id AS id FROM consign.dead d JOIN consign.message m ON m.id = d.message_id
    WHERE ($1::text IS NULL OR d.lane = $1) AND ($2::text IS NULL OR m.key = $2) AND ($3::text IS NULL OR d.code = $3)
        AND d.message_id < $4
    ORDER BY d.message_id DESC LIMIT $5
