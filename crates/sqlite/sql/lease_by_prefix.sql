-- The leases whose token begins like this, with their lanes' rules. Walks the leases, which are few.
-- ?1 the beginning in lower case, without hyphens.
SELECT fence, token, lane, owner, claimed_at, expires_at, ids, tries, attempts, begun,
       presumed_begun, (SELECT policy FROM lane WHERE name = lease.lane)
FROM lease WHERE substr(lower(hex(token)), 1, length(?1)) = ?1 ORDER BY fence
