-- Schedules by name. ?1 the name after which, or null, ?2 at most this many.
SELECT * FROM schedule WHERE ?1 IS NULL OR name > ?1 ORDER BY name LIMIT ?2
