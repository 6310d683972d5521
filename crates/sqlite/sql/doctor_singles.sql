-- Every message in a place that holds single messages, with the attempts it carries there.
SELECT 'held', message_id, lane, attempts FROM held
UNION ALL SELECT 'waiting', message_id, lane, attempts FROM waiting
UNION ALL SELECT 'dead', message_id, lane, attempt_no FROM dead
