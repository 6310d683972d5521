-- The id of a stored memory. ?1 space, ?2 payload_sha.
SELECT memory_id FROM memory_kept
WHERE target_space = ?1 AND payload_sha = ?2 AND superseded_by IS NULL
