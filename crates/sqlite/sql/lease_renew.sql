-- Prolongs a live lease; never shortens it. Uses lease_token. ?1 token, ?2 now, ?3 new end.
UPDATE lease SET expires_at = max(expires_at, ?3) WHERE token = ?1 AND expires_at > ?2
RETURNING expires_at
