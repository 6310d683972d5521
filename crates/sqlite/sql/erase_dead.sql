-- Removes what the dead say of the content, by primary key. ?1 JSON array of ids.
UPDATE dead SET detail = NULL WHERE message_id IN (SELECT value FROM json_each(?1))
