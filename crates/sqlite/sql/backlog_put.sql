-- ?1 the span, ?2 its first minute, ?3 the queue, ?4 how many are due, ?5 the age of the oldest.
INSERT INTO queue_stats (span, minute, queue, due, oldest_ms) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (span, minute, queue) DO UPDATE SET due = max(coalesce(due, 0), excluded.due),
    oldest_ms = max(coalesce(oldest_ms, 0), excluded.oldest_ms)
