-- How many messages of a queue are due, of so many batches at most. Uses ready_due. ?1 queue, ?2 now, ?3 batches.
SELECT coalesce(sum(json_array_length(ids)), 0) FROM (
    SELECT ids FROM ready WHERE queue = ?1 AND isolated IN (0, 1) AND due_at <= ?2 LIMIT ?3
)
