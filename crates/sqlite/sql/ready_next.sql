-- The oldest due runs after a given one. Uses ready_due from that entry on.
-- ?1 lane, ?2 now, ?3 due_at and ?4 run of the last one seen, ?5 runs wanted.
SELECT run, due_at, apart, ids, tries, attempts FROM ready
WHERE lane = ?1 AND apart = 0 AND due_at <= ?2 AND (due_at, run) > (?3, ?4)
ORDER BY due_at, run LIMIT ?5
