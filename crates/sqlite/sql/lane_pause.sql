-- Pauses a lane; a second pause keeps the first time. ?1 lane, ?2 now.
UPDATE lane SET paused_at = coalesce(paused_at, ?2) WHERE name = ?1
RETURNING name, policy, paused_at
