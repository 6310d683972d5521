-- The oldest due runs after a given one, each with the bytes of its first messages. Uses ready_due from
-- that entry on. ?1 queue, ?2 now, ?3 due_at and ?4 batch of the last one seen, ?5 batches wanted,
-- ?6 messages wanted.
SELECT batch, due_at, isolated, ids, tries, attempts,
       (SELECT coalesce(sum(octet_length(m.payload) + octet_length(m.headers)), 0)
            FROM json_each(ready.ids) AS e CROSS JOIN message AS m ON m.id = e.value WHERE e.key < ?6)
FROM ready
WHERE queue = ?1 AND isolated = 0 AND due_at <= ?2 AND (due_at, batch) > (?3, ?4)
ORDER BY due_at, batch LIMIT ?5
