-- Queues with their counts, by name. ?1 now, ?2 the name after which, or null, ?3 at most this many.
-- Each count uses the index or primary key that begins with the queue. Delivered messages are not
-- counted: there may be billions.
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
FROM (SELECT * FROM queue WHERE ?2 IS NULL OR name > ?2 ORDER BY name LIMIT ?3) AS l
ORDER BY l.name
