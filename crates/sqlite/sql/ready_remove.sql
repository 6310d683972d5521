-- Removes runs by primary key. ?1 JSON array of runs.
DELETE FROM ready WHERE run IN (SELECT value FROM json_each(?1))
