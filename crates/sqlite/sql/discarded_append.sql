-- Files discarded and cancelled messages. ?1 JSON array of [message_id, queue, attempts], ?2 at, ?3 actor, ?4 reason.
INSERT INTO discarded (message_id, queue, at, attempts, actor, reason)
SELECT value ->> 0, value ->> 1, ?2, value ->> 2, ?3, ?4 FROM json_each(?1)
