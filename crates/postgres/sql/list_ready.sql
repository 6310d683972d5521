-- Ids of messages in ready runs; parameters as in list_any.sql. Walks the runs.
SELECT m.id FROM (SELECT unnest(ids) AS id FROM consign.ready WHERE $1::text IS NULL OR lane = $1) r
    JOIN consign.message m ON m.id = r.id
    WHERE ($2::text IS NULL OR m.key = $2) AND $3::text IS NULL AND r.id < $4
    ORDER BY m.id DESC LIMIT $5
