-- Schedules by their next ticks, by schedule_next. ?1 the tick and ?2 the name after which, ?3 at most this many.
SELECT name, cron, time_zone, missed, missed_max, next_at
FROM schedule WHERE paused_at IS NULL AND (next_at, name) > (?1, ?2) ORDER BY next_at, name LIMIT ?3
