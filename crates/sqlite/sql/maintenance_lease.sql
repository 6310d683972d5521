-- Leases the maintenance if it is free, over, or the caller's own, and returns the lease's token.
-- ?1 owner, ?2 the caller's token or null, ?3 a fresh token, ?4 now, ?5 until when.
UPDATE maintenance
SET owner = ?1, token = CASE WHEN token = ?2 THEN token ELSE ?3 END, expires_at = ?5
WHERE token = ?2 OR expires_at <= ?4
RETURNING token
