-- Creates a queue or changes its policy. ?1 name, ?2 policy.
INSERT INTO queue (name, policy, app) VALUES (?1, ?2, (SELECT app FROM hook WHERE queue = ?1))
ON CONFLICT (name) DO UPDATE SET policy = excluded.policy
RETURNING name, policy, paused_at
