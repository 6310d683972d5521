-- Those of these messages that may have been delivered: the last attempt that reached the sink ended
-- uncertain, or somebody who had lost the message says so. Expired attempts never reached it.
-- Uses attempt's primary key, backwards, and late's. ?1 JSON array of ids.
SELECT wanted.value
FROM json_each(?1) AS wanted
WHERE (SELECT outcome FROM attempt
       WHERE message_id = wanted.value AND outcome <> 'expired'
       ORDER BY attempt_no DESC LIMIT 1) = 'uncertain'
   OR EXISTS (SELECT 1 FROM late WHERE message_id = wanted.value AND outcome = 'delivered')
