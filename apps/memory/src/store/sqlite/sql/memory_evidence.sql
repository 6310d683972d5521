-- Audits with evidence of the logbook's own, and that evidence. Walks all audits.
SELECT audit_id, outbox_id,
       coalesce(evidence_refs_json -> '$.patches', '[]') AS patches,
       coalesce(evidence_refs_json -> '$.attachments', '[]') AS attachments
FROM write_audit
WHERE json_array_length(evidence_refs_json, '$.patches') > 0
   OR json_array_length(evidence_refs_json, '$.attachments') > 0
ORDER BY audit_id
