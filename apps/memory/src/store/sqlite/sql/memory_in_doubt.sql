-- Whether a request may have stored a memory without a record of it. Uses
-- write_audit_memory. ?1 space, ?2 payload_sha, ?3 backend, or null for any.
SELECT EXISTS (
    SELECT 1 FROM write_audit
    WHERE payload_sha = ?2 AND target_space = ?1
      AND (status = 'pending'
           OR status <> 'success' AND json_type(evidence_refs_json, '$.extra.may_be_stored') = 'true')
      AND coalesce(evidence_refs_json ->> '$.backend' = ?3, 1))
