-- Leases that have ended, oldest first. Walks the leases, which are few. ?1 now, ?2 lane or null
-- for every lane, ?3 at most this many.
SELECT fence, token, lane, owner, claimed_at, expires_at, ids, tries, attempts, begun,
       presumed_begun, (SELECT policy FROM lane WHERE name = lease.lane)
FROM lease
WHERE expires_at <= ?1 AND (?2 IS NULL OR lane = ?2)
ORDER BY fence LIMIT ?3
