-- The oldest batch that came back from an expiry, and the oldest batches that did not, due or not, each with
-- the bytes of its first messages: their lengths are read, not they themselves.
-- Uses ready_due twice, each time from its first entry, so the cost is the number of rows
-- returned however long the queue is. ?1 queue, ?2 batches wanted, ?3 messages wanted.
SELECT * FROM (
    SELECT batch, due_at, isolated, ids, tries, attempts,
           (SELECT coalesce(sum(octet_length(m.payload) + octet_length(m.headers)), 0)
            FROM json_each(ready.ids) AS e CROSS JOIN message AS m ON m.id = e.value WHERE e.key < ?3)
    FROM ready
    WHERE queue = ?1 AND isolated = 1
    ORDER BY due_at, batch LIMIT 1
)
UNION ALL
SELECT * FROM (
    SELECT batch, due_at, isolated, ids, tries, attempts,
           (SELECT coalesce(sum(octet_length(m.payload) + octet_length(m.headers)), 0)
            FROM json_each(ready.ids) AS e CROSS JOIN message AS m ON m.id = e.value WHERE e.key < ?3)
    FROM ready
    WHERE queue = ?1 AND isolated = 0
    ORDER BY due_at, batch LIMIT ?2
)
