-- The lease of a token with its queue's rules. Uses lease_token. ?1 token.
SELECT fence, token, queue, owner, claimed_at, expires_at, ids, tries, attempts, begun,
       presumed_begun, (SELECT policy FROM queue WHERE name = lease.queue),
       (SELECT app FROM queue WHERE name = lease.queue) AS app
FROM lease WHERE token = ?1
