-- The audit entry of a purge that was left open; outside a purge's transaction there is none.
SELECT audit_id FROM purging
