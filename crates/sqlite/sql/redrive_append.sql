-- Starts a redrive. ?1 queue or null, ?2 code or null, ?3 rate or null, ?4 at most or null, ?5 total,
-- ?6 actor, ?7 reason, ?8 now, ?9 action.
INSERT INTO redrive (action, queue, code, rate_per_second, at_most, state, total, moved, skipped, actor, reason,
                     started_at, updated_at, paced_at)
VALUES (?9, ?1, ?2, ?3, ?4, 'running', ?5, 0, 0, ?6, ?7, ?8, ?8, ?8)
RETURNING id
