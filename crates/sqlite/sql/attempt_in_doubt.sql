-- Those of these messages whose last attempt that reached the sink ended uncertain.
-- Expired attempts never reached it. Uses attempt's primary key, backwards. ?1 JSON array of ids.
SELECT wanted.value
FROM json_each(?1) AS wanted
WHERE (SELECT outcome FROM attempt
       WHERE message_id = wanted.value AND outcome <> 'expired'
       ORDER BY attempt_no DESC LIMIT 1) = 'uncertain'
