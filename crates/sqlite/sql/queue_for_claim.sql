-- What a claim must know of its queue: its rules, whether it is paused, when its first lease ends, its app.
-- Uses queue's primary key and lease_expiry. ?1 queue.
SELECT policy, paused_at IS NOT NULL, (SELECT min(expires_at) FROM lease WHERE queue = ?1), app
FROM queue WHERE name = ?1
