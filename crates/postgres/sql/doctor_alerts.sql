-- Alerts that are not delivered: their queue is gone, or does not take them.
SELECT 'alerts' AS code,
       format('alerts of queue %s cannot be enqueued into queue %s: %s', q.name, q.policy->>'alert_queue',
              coalesce(f.failure, 'it does not exist')) AS what,
       format('correct queue %s, or choose another: `consign queues set %s --alert-queue NAME`', q.policy->>'alert_queue', q.name) AS remedy,
       '{}'::bigint[] AS ids
    FROM consign.queue q
    LEFT JOIN LATERAL (SELECT a.failure FROM consign.alert a WHERE a.queue = q.name AND a.failure IS NOT NULL
                           ORDER BY a.reason, a.code LIMIT 1) f ON true
    WHERE q.policy->>'alert_queue' IS NOT NULL
        AND (f.failure IS NOT NULL
             OR NOT EXISTS (SELECT FROM consign.queue t WHERE t.name = q.policy->>'alert_queue' AND t.policy IS NOT NULL))
    ORDER BY q.name LIMIT 100
