-- Removes purged messages, by primary key. ?1 JSON array of ids.
DELETE FROM message WHERE id IN (SELECT value FROM json_each(?1))
