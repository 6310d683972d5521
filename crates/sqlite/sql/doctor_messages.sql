-- Messages that are not plainly delivered (attempts numbered from 1 without gaps, the last one and
-- only that one delivered), by id. Reads all messages and attempts once, along their keys.
SELECT m.id, m.queue, m."group", count(a.attempt_no) AS attempts,
       coalesce(min(a.attempt_no), 1) = 1
           AND coalesce(max(a.attempt_no), 0) = count(a.attempt_no) AS dense,
       coalesce(sum(a.outcome = 'delivered'), 0) AS delivered,
       coalesce(max(a.attempt_no) FILTER (WHERE a.outcome = 'delivered'), 0) AS delivered_no
FROM message AS m
LEFT JOIN attempt AS a ON a.message_id = m.id
GROUP BY m.id
HAVING NOT (dense AND delivered = 1 AND delivered_no = attempts)
ORDER BY m.id
