-- Alerts that are not delivered: their queue is gone, or does not take them. Queue, its alert queue, why.
SELECT q.name, q.policy ->> '$.alert_queue',
       coalesce((SELECT a.failure FROM alert AS a WHERE a.queue = q.name AND a.failure IS NOT NULL ORDER BY a.reason, a.code),
                'it does not exist')
FROM queue AS q
WHERE q.policy ->> '$.alert_queue' IS NOT NULL
    AND (NOT EXISTS (SELECT 1 FROM queue AS t WHERE t.name = q.policy ->> '$.alert_queue')
         OR EXISTS (SELECT 1 FROM alert AS a WHERE a.queue = q.name AND a.failure IS NOT NULL))
ORDER BY q.name LIMIT 100
