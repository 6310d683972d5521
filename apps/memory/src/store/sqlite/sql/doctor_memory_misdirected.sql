-- Memories that wait for another backend than that of the worker that had them last: the backend, how
-- many, and which. Uses attempt's key.
SELECT coalesce(m.headers ->> '$.backend', 'another backend'), count(*), json_group_array(m.id)
FROM ready, json_each(ready.ids) AS entry JOIN message AS m ON m.id = entry.value
WHERE ready.queue = 'memory'
  AND (SELECT code FROM attempt WHERE message_id = m.id ORDER BY attempt_no DESC LIMIT 1) = 'misdirected'
GROUP BY 1
