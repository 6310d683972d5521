-- Lets a lane be claimed again. ?1 lane.
UPDATE lane SET paused_at = NULL WHERE name = ?1
RETURNING name, policy, paused_at
