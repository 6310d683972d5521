-- Ids of dead messages; parameters as in list_any.sql. Primary key of dead, or dead_lane.
SELECT d.message_id AS id FROM consign.dead d
    WHERE ($1::text IS NULL OR d.lane = $1) AND d.message_id < $2 AND d.message_id >= $3
    ORDER BY d.message_id DESC LIMIT $4
