-- The app with a hook on a queue. ?1 queue.
SELECT app FROM hook WHERE queue = ?1
