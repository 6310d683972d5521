-- Whether the ready batches of a queue, or of all (?1), hold too much to be unnested for a page.
-- By the length of their text, which costs less than counting.
SELECT count(*) > 5000 OR coalesce(sum(length), 0) > 200000
FROM (SELECT length(ids) AS length FROM ready WHERE ?1 IS NULL OR queue = ?1 LIMIT 5001)
