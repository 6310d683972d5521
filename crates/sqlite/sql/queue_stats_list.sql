-- ?1 the queue or null, ?2 the first minute, ?3 the step, ?4 the span that is read.
SELECT queue, minute - minute % ?3 AS begin, sum(delivered), sum(retried), sum(dead), sum(uncertain), sum(took_ms),
    sum(ms10), sum(ms25), sum(ms50), sum(ms100), sum(ms250), sum(ms500), sum(ms1000), sum(ms2500), sum(ms10000), sum(more),
    coalesce(max(due), 0), coalesce(max(oldest_ms), 0)
FROM queue_stats
WHERE span = ?4 AND minute >= ?2 AND (?1 IS NULL OR queue = ?1)
GROUP BY queue, begin
ORDER BY queue, begin
