SELECT queue, minute - minute % ?3 AS begin, sum(delivered), sum(retried), sum(dead), sum(uncertain), sum(took_ms)
FROM queue_stats
WHERE minute >= ?2 AND (?1 IS NULL OR queue = ?1)
GROUP BY queue, begin
ORDER BY queue, begin
