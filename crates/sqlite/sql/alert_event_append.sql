-- Keeps events for the next step of the alerts. ?1 JSON array of [queue, reason, code, count, message_id, at].
INSERT INTO alert_event (queue, reason, code, count, message_id, at)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5 FROM json_each(?1)
