INSERT INTO queue_stats (minute, queue, delivered, retried, dead, uncertain, took_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (minute, queue) DO UPDATE SET delivered = delivered + excluded.delivered, retried = retried + excluded.retried,
    dead = dead + excluded.dead, uncertain = uncertain + excluded.uncertain, took_ms = took_ms + excluded.took_ms
