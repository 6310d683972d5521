-- ?1 ticks due before are overdue, ?2 at most this many.
SELECT name, queue, next_at FROM schedule WHERE paused_at IS NULL AND next_at < ?1 ORDER BY next_at, name LIMIT ?2
