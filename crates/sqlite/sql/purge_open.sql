-- Opens the way for a purge, under the newest audit entry, which must record it.
INSERT INTO purging (audit_id) SELECT max(id) FROM audit
