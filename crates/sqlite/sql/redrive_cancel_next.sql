-- The ready and waiting messages of a queue that a redrive cancels next, by id. Unnests the queue's batches: there is no
-- index from message to batch. ?1 queue, ?2 greater than this id, ?3 enqueued then at the latest, ?4 at most this many.
SELECT m.id
FROM (SELECT ids.value AS id FROM ready AS r, json_each(r.ids) AS ids WHERE r.queue = ?1 AND ids.value > ?2
      UNION ALL SELECT message_id FROM waiting WHERE queue = ?1 AND message_id > ?2) AS open
CROSS JOIN message AS m ON m.id = open.id
WHERE m.created_at <= ?3
ORDER BY m.id LIMIT ?4
