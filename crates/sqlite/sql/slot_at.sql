-- The next send slot of a queue. ?1 queue.
SELECT slot_at FROM queue_limit WHERE queue = ?1
