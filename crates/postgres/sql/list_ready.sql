-- Ids of messages in ready batches; parameters as in list_any.sql. Unnests the batches: for when
-- ready_is_deep.sql says that they are not too many.
SELECT r.id FROM (SELECT unnest(ids) AS id FROM consign.ready WHERE $1::text IS NULL OR queue = $1) r
    WHERE r.id < $2 AND r.id >= $3
    ORDER BY r.id DESC LIMIT $4
