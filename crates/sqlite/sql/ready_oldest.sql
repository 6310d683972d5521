-- The oldest due batch of a queue: since when, and its first message. Uses ready_due. ?1 queue, ?2 now.
SELECT due_at, ids ->> 0 FROM (
    SELECT * FROM (SELECT due_at, batch, ids FROM ready WHERE queue = ?1 AND isolated = 0 AND due_at <= ?2
                   ORDER BY due_at, batch LIMIT 1)
    UNION ALL
    SELECT * FROM (SELECT due_at, batch, ids FROM ready WHERE queue = ?1 AND isolated = 1 AND due_at <= ?2
                   ORDER BY due_at, batch LIMIT 1)
)
ORDER BY due_at, batch LIMIT 1
