-- Whether the ready batches of a queue, or of all ($1), hold too many messages to unnest for a page.
SELECT count(*) > 5000 OR coalesce(sum(cardinality(ids)), 0) > 20000 AS deep
    FROM (SELECT ids FROM consign.ready WHERE $1::text IS NULL OR queue = $1 LIMIT 5001) batches
