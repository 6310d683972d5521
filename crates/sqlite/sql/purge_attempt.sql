-- Removes the attempts of purged messages, by primary key. ?1 JSON array of ids.
DELETE FROM attempt WHERE message_id IN (SELECT value FROM json_each(?1))
