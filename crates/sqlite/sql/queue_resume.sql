-- Lets a queue be claimed again. ?1 queue.
UPDATE queue SET paused_at = NULL WHERE name = ?1
RETURNING name, policy, paused_at
