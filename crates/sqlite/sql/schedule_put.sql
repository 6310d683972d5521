-- A schedule as it is now. ?1 name, ?2 queue, ?3 cron, ?4 time zone, ?5 payload, ?6 headers, ?7 group or null, ?8 missed,
-- ?9 missed_max, ?10 created_at, ?11 updated_at, ?12 paused_at or null, ?13 next_at, ?14 last_tick or null, ?15 last_at or null,
-- ?16 last_message_id or null, ?17 ticks, ?18 dropped.
INSERT OR REPLACE INTO schedule (name, queue, cron, time_zone, payload, headers, "group", missed, missed_max, created_at,
                                 updated_at, paused_at, next_at, last_tick, last_at, last_message_id, ticks, dropped)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)
