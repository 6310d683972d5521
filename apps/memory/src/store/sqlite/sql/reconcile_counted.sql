-- Memories that were sent since, and that have been dead since. Walks the queue by message_queue.
-- ?1 since.
SELECT (SELECT count(*) FROM message AS m JOIN attempt AS a ON a.message_id = m.id
        WHERE m.queue = 'memory' AND a.outcome = 'delivered' AND a.finished_at >= ?1),
       (SELECT count(*) FROM dead WHERE queue = 'memory' AND at >= ?1)
