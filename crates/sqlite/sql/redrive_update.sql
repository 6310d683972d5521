-- How far a redrive has come. ?1 id, ?2 state, ?3 moved, ?4 skipped, ?5 cursor, ?6 updated_at,
-- ?7 finished_at, ?8 paced_at.
UPDATE redrive SET state = ?2, moved = ?3, skipped = ?4, cursor = ?5, updated_at = ?6,
                   finished_at = ?7, paced_at = ?8
WHERE id = ?1
