-- Records erasures. ?1 JSON array of [message, queue, digest of the payload in hex], ?2 at, ?3 actor, ?4 reason.
INSERT INTO erasure (message_id, queue, at, actor, reason, digest)
SELECT value ->> 0, value ->> 1, ?2, ?3, ?4, unhex(value ->> 2) FROM json_each(?1)
