-- Takes purged messages out of the discarded, by primary key. ?1 JSON array of ids.
DELETE FROM discarded WHERE message_id IN (SELECT value FROM json_each(?1))
