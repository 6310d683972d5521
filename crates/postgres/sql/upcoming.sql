-- Schedules by their next ticks, with the clock. $1 the tick and $2 the name after which, or NULL, $3 at most this many.
SELECT c.now, s.name, s.cron, s.time_zone, s.missed, s.missed_max, s.next_at
    FROM (SELECT consign.clock() AS now) c
    LEFT JOIN LATERAL (SELECT * FROM consign.schedule
                           WHERE paused_at IS NULL AND (next_at, name) > (coalesce($1, '-infinity'), coalesce($2, ''))
                           ORDER BY next_at, name LIMIT $3) s ON true
    ORDER BY s.next_at, s.name
