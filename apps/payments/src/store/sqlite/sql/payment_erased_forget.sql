-- Removes what was kept of erased payments whose keys were forgotten. ?1 JSON array of messages.
DELETE FROM payment_erased WHERE message_id IN (SELECT value FROM json_each(?1))
