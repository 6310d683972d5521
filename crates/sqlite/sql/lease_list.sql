-- Every lease, oldest first. ?1 at most this many.
SELECT fence, token, queue, owner, claimed_at, expires_at, ids, begun FROM lease ORDER BY fence LIMIT ?1
