-- The lease that a worker has of a row, live or not, and for how long it was claimed. Walks the
-- queue's leases, which are few. ?1 message, ?2 worker.
SELECT token, (SELECT claimed_for FROM memory_lease WHERE fence = lease.fence)
FROM lease
WHERE queue = 'memory' AND owner = ?2 AND ?1 IN (SELECT value FROM json_each(lease.ids))
