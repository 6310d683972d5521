-- Deletes a memory with the versions that it replaced. ?1 memory_id.
WITH RECURSIVE version (memory_id) AS (
    SELECT memory_id FROM memory_kept WHERE memory_id = ?1
    UNION
    SELECT k.memory_id FROM version CROSS JOIN memory_kept AS k ON k.superseded_by = version.memory_id
)
DELETE FROM memory_kept WHERE memory_id IN (SELECT memory_id FROM version)
