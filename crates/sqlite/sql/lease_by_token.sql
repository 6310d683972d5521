-- The lease of a token with its lane's rules. Uses lease_token. ?1 token.
SELECT fence, token, lane, owner, claimed_at, expires_at, ids, tries, attempts, begun,
       presumed_begun, (SELECT policy FROM lane WHERE name = lease.lane)
FROM lease WHERE token = ?1
