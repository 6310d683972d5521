-- Holds messages. ?1 JSON array of [message_id, queue, tries, attempts, group in which it waited],
-- ?2 at, ?3 reason.
INSERT INTO held (message_id, queue, at, reason, tries, attempts, "group")
SELECT value ->> 0, value ->> 1, ?2, ?3, value ->> 2, value ->> 3, value ->> 4 FROM json_each(?1)
