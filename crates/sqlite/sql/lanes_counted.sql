-- Every lane with its counts, by name. ?1 now.
-- Each count uses the index or primary key that begins with the lane. Delivered messages are not
-- counted: there may be billions.
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
FROM lane AS l
ORDER BY l.name
