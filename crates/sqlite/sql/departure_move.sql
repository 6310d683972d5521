-- How far a departure has come. ?1 id, ?2 the last id it has passed, ?3 messages removed by this step, ?4 when it ended,
-- or null.
UPDATE departure SET cursor = ?2, removed = removed + ?3, ended_at = ?4 WHERE id = ?1
