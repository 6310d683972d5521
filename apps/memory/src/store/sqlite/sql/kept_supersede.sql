-- Marks a memory as replaced by another of its space, unless it has itself replaced the other.
-- ?1 the old one, ?2 the new one.
UPDATE memory_kept SET superseded_by = ?2
WHERE memory_id = ?1 AND superseded_by IS NULL
  AND target_space = (SELECT target_space FROM memory_kept WHERE memory_id = ?2)
  AND NOT EXISTS (
    WITH RECURSIVE later (memory_id) AS (
        SELECT ?2
        UNION
        SELECT k.superseded_by FROM later CROSS JOIN memory_kept AS k ON k.memory_id = later.memory_id
        WHERE k.superseded_by IS NOT NULL
    )
    SELECT 1 FROM later WHERE later.memory_id = ?1)
