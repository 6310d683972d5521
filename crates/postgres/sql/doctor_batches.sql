-- Batches and leases are well formed: parallel arrays, not empty, batches not over their length.
SELECT 'batch_malformed' AS code, count(*) || ' row(s) of consign.' || place || ' have arrays that do not match' AS what,
       'as owner, rewrite the arrays of these rows: ids, tries and attempts have one entry per message' AS remedy,
       (array_agg(ids[1]) FILTER (WHERE ids[1] IS NOT NULL))[: 20] AS ids
    FROM (SELECT 'ready' AS place, ids, tries, attempts FROM consign.ready
          UNION ALL SELECT 'lease', ids, tries, attempts FROM consign.lease) batch
    WHERE cardinality(ids) = 0 OR cardinality(ids) <> cardinality(tries) OR cardinality(ids) <> cardinality(attempts)
        OR (place = 'ready' AND cardinality(ids) > 200)
    GROUP BY place
UNION ALL
SELECT 'queue_unknown', count(*) || ' batch(es) belong to queue ' || r.queue || ', which does not exist',
       'create the queue: `consign queues set ' || r.queue || '`', (array_agg(r.ids[1]))[: 20]
    FROM consign.ready r WHERE NOT EXISTS (SELECT FROM consign.queue l WHERE l.name = r.queue AND l.policy IS NOT NULL) GROUP BY r.queue
