-- Every space that a memory was ever stored in. Goes from one to the next by write_audit_space.
WITH RECURSIVE found (space) AS (
    SELECT min(target_space) FROM write_audit
    WHERE status = 'success' AND payload_sha IS NOT NULL
      AND json_type(evidence_refs_json, '$.memory_id') = 'text'
    UNION ALL
    SELECT (SELECT min(target_space) FROM write_audit
            WHERE status = 'success' AND payload_sha IS NOT NULL AND target_space > found.space
              AND json_type(evidence_refs_json, '$.memory_id') = 'text')
    FROM found WHERE found.space IS NOT NULL
)
SELECT space FROM found WHERE space IS NOT NULL
