-- When the next batch of a queue that is not paused becomes due or its next lease ends, whichever
-- comes first; null for neither. Uses ready_due and lease_expiry. ?1 queue.
SELECT min(at) FROM (
    SELECT min(due_at) AS at FROM ready WHERE queue = ?1 AND isolated = 0
    UNION ALL SELECT min(due_at) FROM ready WHERE queue = ?1 AND isolated = 1
    UNION ALL SELECT min(expires_at) FROM lease WHERE queue = ?1
)
WHERE EXISTS (SELECT 1 FROM queue WHERE name = ?1 AND paused_at IS NULL)
