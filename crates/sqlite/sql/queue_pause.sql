-- Pauses a queue; a second pause keeps the first time. ?1 queue, ?2 now.
UPDATE queue SET paused_at = coalesce(paused_at, ?2) WHERE name = ?1
RETURNING name, policy, paused_at
