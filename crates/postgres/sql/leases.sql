-- Leases, oldest first ($1 how many). Names its columns: the token is not for readers.
SELECT fence, consign.token_prefix(fence) AS token_prefix, queue, owner, ids, ARRAY(SELECT b FROM unnest(begun) b ORDER BY b) AS begun, claimed_at, expires_at
    FROM consign.lease ORDER BY fence LIMIT $1
