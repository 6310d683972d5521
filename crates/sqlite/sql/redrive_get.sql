-- One redrive. ?1 id.
SELECT id, action, queue, code, rate_per_second, at_most, state, total, moved, skipped, cursor, actor, reason,
       started_at, updated_at, finished_at, paced_at
FROM redrive WHERE id = ?1
