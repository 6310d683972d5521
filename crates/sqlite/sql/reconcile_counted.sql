-- Sent and dead memories that something happened to since. ?1 since.
SELECT coalesce(sum(status = 'sent'), 0), coalesce(sum(status = 'dead'), 0)
FROM outbox_memory WHERE status <> 'pending' AND updated_at >= ?1
