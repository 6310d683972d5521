-- The queues that have alerts, with their policies.
SELECT name, policy FROM queue WHERE policy ->> '$.alert_queue' IS NOT NULL ORDER BY name
