-- Removes batches by primary key. ?1 JSON array of batches.
DELETE FROM ready WHERE batch IN (SELECT value FROM json_each(?1))
