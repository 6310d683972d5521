-- Takes the oldest events. ?1 how many at most.
DELETE FROM alert_event WHERE id IN (SELECT id FROM alert_event ORDER BY id LIMIT ?1)
RETURNING id, queue, reason, code, count, message_id, at
