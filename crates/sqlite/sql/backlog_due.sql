-- What is due in every queue at ?1, the most first, of ?2 queues at most.
SELECT queue, sum(json_array_length(ids)) AS due, min(due_at)
FROM ready WHERE due_at <= ?1
GROUP BY queue ORDER BY due DESC, queue LIMIT ?2
