-- How many messages of a queue are ready or waiting. ?1 queue.
SELECT (SELECT coalesce(sum(json_array_length(ids)), 0) FROM ready WHERE queue = ?1)
       + (SELECT count(*) FROM waiting WHERE queue = ?1)
