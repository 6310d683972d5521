-- Takes messages out of the held, by primary key. ?1 JSON array of ids.
DELETE FROM held WHERE message_id IN (SELECT value FROM json_each(?1))
RETURNING message_id, tries, attempts
