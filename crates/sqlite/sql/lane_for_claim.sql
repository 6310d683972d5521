-- What a claim must know of its lane: its rules, whether it is paused, whether a lease has ended.
-- Uses lane's primary key and lease_expiry. ?1 lane, ?2 now.
SELECT policy, paused_at IS NOT NULL,
       EXISTS (SELECT 1 FROM lease WHERE lane = ?1 AND expires_at <= ?2)
FROM lane WHERE name = ?1
