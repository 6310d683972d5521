-- Expired leases of memories that were not renewed since, oldest first. ?1 now,
-- ?2 since, ?3 at most this many.
SELECT token, locked_at
FROM (SELECT token, fence, max(claimed_at, expires_at - coalesce(
                 (SELECT claimed_for FROM memory_lease WHERE fence = lease.fence), 1000 * coalesce(
                 (SELECT policy ->> '$.lease_ttl_ms' FROM queue WHERE name = 'memory'), 15000)))
                 AS locked_at
      FROM lease WHERE queue = 'memory' AND expires_at <= ?1)
WHERE locked_at < ?2
ORDER BY locked_at, fence LIMIT ?3
