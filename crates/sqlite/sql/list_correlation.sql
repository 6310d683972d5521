-- Messages with a correlation id, newest first. Uses message_correlation.
-- ?1 queue or null, ?2 smaller than this id, ?3 at most this many, ?4 correlation id, ?5 not smaller
-- than this id, ?6 state or null, ?7 code or null.
SELECT m.id FROM message AS m
WHERE instr(m.headers, '"correlation_id"') > 0 AND m.headers ->> '$.correlation_id' = ?4
  AND json_type(m.headers, '$.correlation_id') = 'text'
  AND m.id < ?2 AND m.id >= ?5 AND (?1 IS NULL OR m.queue = ?1)
  AND (?7 IS NULL OR EXISTS (SELECT 1 FROM dead WHERE message_id = m.id AND code = ?7))
  AND (?6 IS NULL OR ?6 = CASE
           WHEN (SELECT outcome FROM attempt WHERE message_id = m.id
                 ORDER BY attempt_no DESC LIMIT 1) = 'delivered' THEN 'delivered'
           WHEN EXISTS (SELECT 1 FROM dead WHERE message_id = m.id) THEN 'dead'
           WHEN EXISTS (SELECT 1 FROM held WHERE message_id = m.id) THEN 'held'
           WHEN EXISTS (SELECT 1 FROM waiting WHERE message_id = m.id) THEN 'waiting'
           WHEN EXISTS (SELECT 1 FROM discarded WHERE message_id = m.id) THEN 'discarded'
           WHEN m.id IN (SELECT leased.value FROM lease, json_each(lease.ids) AS leased)
               THEN 'leased'
           ELSE 'ready'
       END)
ORDER BY m.id DESC LIMIT ?3
