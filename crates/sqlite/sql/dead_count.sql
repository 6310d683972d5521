-- How many dead messages fit. ?1 queue or null, ?2 code or null, ?3 count no further.
SELECT count(*) FROM (SELECT 1 FROM dead
WHERE (?1 IS NULL OR queue = ?1) AND (?2 IS NULL OR code = ?2) LIMIT ?3)
