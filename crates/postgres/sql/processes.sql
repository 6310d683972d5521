SELECT name, version, started_at, seen_at, queues, breakers
    FROM consign.process
    WHERE seen_at >= consign.clock() - interval '25 hours'
    ORDER BY name COLLATE "C"
