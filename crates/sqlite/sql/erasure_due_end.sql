-- Records that the archive is cleared of messages. ?1 JSON array of ids.
DELETE FROM erasure_due WHERE message_id IN (SELECT value FROM json_each(?1))
