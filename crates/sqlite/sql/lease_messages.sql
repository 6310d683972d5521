-- How many messages of a queue are leased. Uses lease_expiry. ?1 queue.
SELECT coalesce(sum(json_array_length(ids)), 0) FROM lease WHERE queue = ?1
