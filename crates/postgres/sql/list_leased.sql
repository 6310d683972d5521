-- Ids of messages in leases; parameters as in list_any.sql.
SELECT m.id FROM (SELECT unnest(ids) AS id FROM consign.lease WHERE $1::text IS NULL OR lane = $1) l
    JOIN consign.message m ON m.id = l.id
    WHERE ($2::text IS NULL OR m.key = $2) AND $3::text IS NULL AND l.id < $4
    ORDER BY m.id DESC LIMIT $5
