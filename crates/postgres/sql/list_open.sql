-- Ids of the first ready and waiting messages of a queue, in the order in which consign.redrive_next takes them:
-- $1 queue, $2 how many.
SELECT o.id
    FROM (SELECT unnest(r.ids) AS id FROM consign.ready r WHERE r.queue = $1
          UNION ALL SELECT w.message_id FROM consign.waiting w WHERE w.queue = $1) o
    ORDER BY o.id LIMIT $2
