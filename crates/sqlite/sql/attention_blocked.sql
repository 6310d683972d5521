-- Groups of ordered queues whose head is dead, by queue. ?1 at most this many queues.
SELECT d.queue, count(*), min(d.at)
FROM queue AS q
CROSS JOIN dead AS d ON d.queue = q.name
CROSS JOIN message AS m ON m.id = d.message_id
CROSS JOIN group_head AS h ON h.queue = d.queue AND h."group" = m."group" AND h.message_id = d.message_id
WHERE q.policy ->> 'ordered'
GROUP BY d.queue ORDER BY d.queue LIMIT ?1
