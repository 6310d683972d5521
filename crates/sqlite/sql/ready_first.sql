-- The oldest run that came back from an expiry, and the oldest runs that did not, due or not, each with
-- the bytes of its first messages: their lengths are read, not they themselves.
-- Uses ready_due twice, each time from its first entry, so the cost is the number of rows
-- returned however long the queue is. ?1 queue, ?2 runs wanted, ?3 messages wanted.
SELECT * FROM (
    SELECT run, due_at, apart, ids, tries, attempts,
           (SELECT coalesce(sum(octet_length(m.payload) + octet_length(m.headers)), 0)
            FROM json_each(ready.ids) AS e CROSS JOIN message AS m ON m.id = e.value WHERE e.key < ?3)
    FROM ready
    WHERE queue = ?1 AND apart = 1
    ORDER BY due_at, run LIMIT 1
)
UNION ALL
SELECT * FROM (
    SELECT run, due_at, apart, ids, tries, attempts,
           (SELECT coalesce(sum(octet_length(m.payload) + octet_length(m.headers)), 0)
            FROM json_each(ready.ids) AS e CROSS JOIN message AS m ON m.id = e.value WHERE e.key < ?3)
    FROM ready
    WHERE queue = ?1 AND apart = 0
    ORDER BY due_at, run LIMIT ?2
)
