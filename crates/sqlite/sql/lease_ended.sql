-- Leases that have ended, oldest first. Walks the leases, which are few. ?1 now, ?2 queue or null
-- for every queue, ?3 at most this many, ?4 JSON array of the apps of this process: leases of the queues of
-- others are left alone; null for all.
SELECT fence, token, queue, owner, claimed_at, expires_at, ids, tries, attempts, begun,
       presumed_begun, (SELECT policy FROM queue WHERE name = lease.queue)
FROM lease
WHERE expires_at <= ?1 AND (?2 IS NULL OR queue = ?2)
  AND (?4 IS NULL
       OR NOT EXISTS (SELECT 1 FROM queue WHERE name = lease.queue AND app IS NOT NULL
                                            AND app NOT IN (SELECT value FROM json_each(?4))))
ORDER BY fence LIMIT ?3
