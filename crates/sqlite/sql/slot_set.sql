-- Moves the next send slot of a queue. ?1 queue, ?2 when.
INSERT INTO queue_limit (queue, slot_at) VALUES (?1, ?2)
ON CONFLICT (queue) DO UPDATE SET slot_at = excluded.slot_at
