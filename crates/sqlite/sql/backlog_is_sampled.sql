-- ?1 the minute.
SELECT EXISTS (SELECT 1 FROM queue_stats WHERE span = 1 AND minute = ?1 AND due IS NOT NULL)
