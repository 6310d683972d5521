-- The first ready and waiting messages of a queue by id, and whether each was enqueued by then. Looking up the message of
-- every id would cost more than the walk over the batches. ?1 queue, ?2 greater than this id, ?3 when, ?4 at most this many.
SELECT m.id, m.created_at <= ?3
FROM (SELECT id
      FROM (SELECT ids.value AS id FROM ready AS r, json_each(r.ids) AS ids WHERE r.queue = ?1 AND ids.value > ?2
            UNION ALL SELECT message_id FROM waiting WHERE queue = ?1 AND message_id > ?2)
      ORDER BY id LIMIT ?4) AS first
CROSS JOIN message AS m ON m.id = first.id
ORDER BY m.id
