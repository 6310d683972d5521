-- Where messages are, and how many attempts they have had; messages that do not exist are left
-- out. Each message costs a few primary-key look-ups; the leases, which are few, are unnested
-- once. What is in none of the other places is ready. ?1 JSON array of ids.
SELECT m.id, m.queue, m."group",
       CASE
           WHEN (SELECT outcome FROM attempt WHERE message_id = m.id
                 ORDER BY attempt_no DESC LIMIT 1) = 'delivered' THEN 'delivered'
           WHEN EXISTS (SELECT 1 FROM dead WHERE message_id = m.id) THEN 'dead'
           WHEN EXISTS (SELECT 1 FROM held WHERE message_id = m.id) THEN 'held'
           WHEN EXISTS (SELECT 1 FROM waiting WHERE message_id = m.id) THEN 'waiting'
           WHEN EXISTS (SELECT 1 FROM discarded WHERE message_id = m.id) THEN 'discarded'
           WHEN m.id IN (SELECT leased.value FROM lease, json_each(lease.ids) AS leased)
               THEN 'leased'
           ELSE 'ready'
       END
FROM json_each(?1) AS wanted
CROSS JOIN message AS m ON m.id = wanted.value
