-- Ids of messages in leases; parameters as in list_any.sql. Unnests every lease; they are few.
SELECT l.id FROM (SELECT unnest(ids) AS id FROM consign.lease WHERE $1::text IS NULL OR queue = $1) l
    WHERE l.id < $2 AND l.id >= $3
    ORDER BY l.id DESC LIMIT $4
