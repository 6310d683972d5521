-- The oldest run that came back from an expiry, and the oldest runs that did not, due or not.
-- Uses ready_due twice, each time from its first entry, so the cost is the number of rows
-- returned however long the queue is. ?1 lane, ?2 runs wanted.
SELECT * FROM (
    SELECT run, due_at, apart, ids, tries, attempts FROM ready
    WHERE lane = ?1 AND apart = 1
    ORDER BY due_at, run LIMIT 1
)
UNION ALL
SELECT * FROM (
    SELECT run, due_at, apart, ids, tries, attempts FROM ready
    WHERE lane = ?1 AND apart = 0
    ORDER BY due_at, run LIMIT ?2
)
