-- What is in all queues together, in the columns of queues_counted but the first three. ?1 now.
SELECT (SELECT count(*) FROM queue),
       (SELECT count(*) FROM waiting),
       (SELECT coalesce(sum(json_array_length(ids)), 0) FROM ready WHERE due_at <= ?1),
       (SELECT coalesce(sum(json_array_length(ids)), 0) FROM ready WHERE due_at > ?1),
       (SELECT coalesce(sum(json_array_length(ids)), 0) FROM lease),
       (SELECT count(*) FROM held),
       (SELECT count(*) FROM dead),
       (SELECT min(due_at) FROM ready WHERE due_at <= ?1)
