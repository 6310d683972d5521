SELECT name, version, started_at, seen_at, queues, breakers FROM process WHERE seen_at >= ?1 ORDER BY name
