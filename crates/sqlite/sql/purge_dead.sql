-- Takes purged messages out of the dead, by primary key. ?1 JSON array of ids.
DELETE FROM dead WHERE message_id IN (SELECT value FROM json_each(?1))
