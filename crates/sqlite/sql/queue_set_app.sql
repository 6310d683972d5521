-- Names the app of a queue that exists already. ?1 queue, ?2 app.
UPDATE queue SET app = ?2 WHERE name = ?1 AND app IS NOT ?2
