-- Removes the content of messages, by primary key. ?1 JSON array of ids.
UPDATE message SET headers = '{}', payload = 'null' WHERE id IN (SELECT value FROM json_each(?1))
