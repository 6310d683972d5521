-- One queue with its counts. ?1 now, ?2 its name.
SELECT l.name, l.policy, l.paused_at,
       (SELECT count(*) FROM waiting WHERE queue = l.name),
       (SELECT coalesce(sum(json_array_length(ids)), 0) FROM ready
        WHERE queue = l.name AND isolated IN (0, 1) AND due_at <= ?1),
       (SELECT coalesce(sum(json_array_length(ids)), 0) FROM ready
        WHERE queue = l.name AND isolated IN (0, 1) AND due_at > ?1),
       (SELECT coalesce(sum(json_array_length(ids)), 0) FROM lease WHERE queue = l.name),
       (SELECT count(*) FROM held WHERE queue = l.name),
       (SELECT count(*) FROM dead WHERE queue = l.name),
       (SELECT min(due_at) FROM ready WHERE queue = l.name AND isolated IN (0, 1) AND due_at <= ?1)
FROM queue AS l WHERE l.name = ?2
