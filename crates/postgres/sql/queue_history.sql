-- What is in the store of every queue, what may leave, and what has left. Reads ranges that may be left, and former keys.
SELECT t.queue, t.messages, t.oldest_id, (SELECT f.created_at FROM consign.message f WHERE f.id = t.oldest_id) AS oldest_at,
       coalesce(l.may_leave, 0) AS may_leave, t.enqueued, t.delivered, t.dead, t.departed, t.erased, t.discarded, coalesce(k.former_keys, 0) AS former_keys
    FROM consign.queue_totals() t
    LEFT JOIN (SELECT queue, messages AS may_leave FROM consign.may_leave()) l ON l.queue = t.queue
    LEFT JOIN (SELECT queue, count(*) AS former_keys FROM consign.message_key k
                   -- Messages leave from ranges that are replaced.
                   WHERE k.message_id < (SELECT max(r.until) FROM consign.range r WHERE r.is_rest)
                       AND NOT EXISTS (SELECT FROM consign.message m WHERE m.id = k.message_id) GROUP BY queue) k ON k.queue = t.queue
    ORDER BY t.queue COLLATE "C"
