-- Records that the archive is to be cleared of messages. ?1 JSON array of ids.
INSERT INTO erasure_due (message_id) SELECT value FROM json_each(?1)
