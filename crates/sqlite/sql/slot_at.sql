-- The last reservation of send slots of a queue. ?1 queue.
SELECT slot_at, reserved_at FROM queue_limit WHERE queue = ?1
