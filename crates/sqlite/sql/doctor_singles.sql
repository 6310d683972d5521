-- Every row that holds a single message, with the attempts it carries there.
SELECT 'held', message_id, queue, attempts FROM held
UNION ALL SELECT 'waiting', message_id, queue, attempts FROM waiting
UNION ALL SELECT 'discarded', message_id, queue, attempts FROM discarded
UNION ALL SELECT 'dead', message_id, queue, attempt_no FROM dead
