-- What a list shows of these messages, newest first. As state_of, with code and detail of a dead one.
-- ?1 JSON array of ids.
SELECT m.id, m.queue, m.key, m."group", m.created_at, m.expires_at,
       CASE
           WHEN (SELECT outcome FROM attempt WHERE message_id = m.id
                 ORDER BY attempt_no DESC LIMIT 1) = 'delivered' THEN 'delivered'
           WHEN dead.message_id IS NOT NULL THEN 'dead'
           WHEN EXISTS (SELECT 1 FROM held WHERE message_id = m.id) THEN 'held'
           WHEN EXISTS (SELECT 1 FROM waiting WHERE message_id = m.id) THEN 'waiting'
           WHEN EXISTS (SELECT 1 FROM discarded WHERE message_id = m.id) THEN 'discarded'
           WHEN m.id IN (SELECT leased.value FROM lease, json_each(lease.ids) AS leased)
               THEN 'leased'
           ELSE 'ready'
       END,
       (SELECT coalesce(max(attempt_no), 0) FROM attempt WHERE message_id = m.id),
       dead.code, dead.detail,
       EXISTS (SELECT 1 FROM erasure WHERE message_id = m.id)
FROM json_each(?1) AS wanted
CROSS JOIN message AS m ON m.id = wanted.value
LEFT JOIN dead ON dead.message_id = m.id
ORDER BY m.id DESC
