-- The leases whose token begins like this, with their queues' rules. Walks the leases, which are few.
-- ?1 the beginning in lower case, without hyphens.
SELECT fence, token, queue, owner, claimed_at, expires_at, ids, tries, attempts, begun,
       presumed_begun, (SELECT policy FROM queue WHERE name = lease.queue),
       (SELECT app FROM queue WHERE name = lease.queue) AS app
FROM lease WHERE substr(lower(hex(token)), 1, length(?1)) = ?1 ORDER BY fence
