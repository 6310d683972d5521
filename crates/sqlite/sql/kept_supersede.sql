-- Marks a memory as replaced by another of its space. ?1 the old one, ?2 the new one.
UPDATE memory_kept SET superseded_by = ?2
WHERE memory_id = ?1 AND memory_id <> ?2 AND superseded_by IS NULL
  AND target_space = (SELECT target_space FROM memory_kept WHERE memory_id = ?2)
