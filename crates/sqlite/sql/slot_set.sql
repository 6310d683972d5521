-- Moves the next send slot of a queue. ?1 queue, ?2 when, ?3 now.
INSERT INTO queue_limit (queue, slot_at, reserved_at) VALUES (?1, ?2, ?3)
ON CONFLICT (queue) DO UPDATE SET slot_at = excluded.slot_at, reserved_at = excluded.reserved_at
