-- Those of these messages that may have been delivered: the last attempt that reached the sink, or may
-- have, ended with an unknown outcome, or a late result reports it. Other expired
-- attempts never reached it. Uses attempt's primary key, backwards, and late's. ?1 JSON array of ids.
SELECT wanted.value
FROM json_each(?1) AS wanted
WHERE (SELECT outcome FROM attempt
       WHERE message_id = wanted.value
             AND (outcome <> 'expired' OR result ->> '$.may_have_begun' = 1)
       ORDER BY attempt_no DESC LIMIT 1) IN ('uncertain', 'expired')
   OR EXISTS (SELECT 1 FROM late WHERE message_id = wanted.value AND outcome = 'delivered')
