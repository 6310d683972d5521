-- Files dead messages. ?1 JSON array of [message_id, attempt_no, code, detail], ?2 queue, ?3 at.
INSERT INTO dead (message_id, queue, at, attempt_no, code, detail)
SELECT value ->> 0, ?2, ?3, value ->> 1, value ->> 2, value ->> 3 FROM json_each(?1)
