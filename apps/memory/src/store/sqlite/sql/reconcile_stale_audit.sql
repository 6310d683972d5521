-- The audit of a row's stale lease. Uses write_audit_outbox. ?1 message,
-- ?2 fence as text.
SELECT audit_id FROM write_audit
WHERE outbox_id = ?1 AND reason = 'outbox_stale'
  AND evidence_refs_json ->> '$.extra.lease_fence' = ?2
