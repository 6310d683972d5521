-- How many of these merge requests are stored. ?1 JSON array of their numbers, ?2 repository.
SELECT count(*) FROM scm_mrs
WHERE mr_id IN (SELECT ?2 || ':' || value FROM json_each(?1))
