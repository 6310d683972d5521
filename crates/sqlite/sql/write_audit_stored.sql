-- Under what a memory was stored directly: the last audit that says so. Uses write_audit_stored.
-- ?1 space, ?2 payload_sha.
SELECT evidence_refs_json ->> '$.memory_id'
FROM write_audit
WHERE target_space = ?1 AND payload_sha = ?2 AND status = 'success'
  AND evidence_refs_json ->> '$.gateway_event.operation' = 'memory_store'
  AND json_type(evidence_refs_json, '$.memory_id') = 'text'
ORDER BY audit_id DESC LIMIT 1
