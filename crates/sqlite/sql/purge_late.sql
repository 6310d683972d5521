-- Removes the late results about purged messages, by primary key. ?1 JSON array of ids.
DELETE FROM late WHERE message_id IN (SELECT value FROM json_each(?1))
