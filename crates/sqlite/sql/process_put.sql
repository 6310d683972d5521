INSERT INTO process (name, version, started_at, seen_at, queues, breakers) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (name) DO UPDATE SET version = excluded.version, started_at = excluded.started_at,
    seen_at = excluded.seen_at, queues = excluded.queues, breakers = excluded.breakers
