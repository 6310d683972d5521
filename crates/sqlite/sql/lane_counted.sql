-- One lane with its counts. ?1 now, ?2 its name.
SELECT l.name, l.policy, l.paused_at,
       (SELECT count(*) FROM waiting WHERE lane = l.name),
       (SELECT coalesce(sum(json_array_length(ids)), 0) FROM ready
        WHERE lane = l.name AND apart IN (0, 1) AND due_at <= ?1),
       (SELECT coalesce(sum(json_array_length(ids)), 0) FROM ready
        WHERE lane = l.name AND apart IN (0, 1) AND due_at > ?1),
       (SELECT coalesce(sum(json_array_length(ids)), 0) FROM lease WHERE lane = l.name),
       (SELECT count(*) FROM held WHERE lane = l.name),
       (SELECT count(*) FROM dead WHERE lane = l.name),
       (SELECT min(due_at) FROM ready WHERE lane = l.name AND apart IN (0, 1) AND due_at <= ?1)
FROM lane AS l WHERE l.name = ?2
