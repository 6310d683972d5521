-- What a claim must know of its lane: its rules, whether it is paused, when its first lease ends.
-- Uses lane's primary key and lease_expiry. ?1 lane.
SELECT policy, paused_at IS NOT NULL, (SELECT min(expires_at) FROM lease WHERE lane = ?1)
FROM lane WHERE name = ?1
