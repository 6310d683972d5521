-- The dead messages that block groups of a queue, by group. ?1 queue.
SELECT t.message_id FROM group_head AS t
JOIN dead AS d ON d.message_id = t.message_id
WHERE t.queue = ?1 ORDER BY t."group"
