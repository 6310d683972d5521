-- Removes payments whose messages have left and whose keys were forgotten. ?1 JSON array of messages.
DELETE FROM payment WHERE message_id IN (SELECT value FROM json_each(?1))
