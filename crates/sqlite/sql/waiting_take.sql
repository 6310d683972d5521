-- Takes messages out of waiting. Uses waiting_message. ?1 JSON array of ids.
DELETE FROM waiting WHERE message_id IN (SELECT value FROM json_each(?1))
RETURNING message_id, tries, attempts
