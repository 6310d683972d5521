-- Whether a queue has no unfinished message and no blocked group. ?1 queue.
-- Each look-up uses the index or primary key that begins with the queue.
SELECT NOT EXISTS (SELECT 1 FROM ready WHERE queue = ?1)
   AND NOT EXISTS (SELECT 1 FROM lease WHERE queue = ?1)
   AND NOT EXISTS (SELECT 1 FROM waiting WHERE queue = ?1)
   AND NOT EXISTS (SELECT 1 FROM held WHERE queue = ?1)
   AND NOT EXISTS (SELECT 1 FROM group_head WHERE queue = ?1)
