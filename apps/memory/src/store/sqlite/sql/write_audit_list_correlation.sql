-- Audits of a request or batch that fit, newest first. Uses write_audit_correlation.
-- Parameters that are null fit everything: ?1 not older than, ?2 actor, ?3 action, ?4 space,
-- ?5 beginning of the reason, ?6 correlation_id, ?7 status, ?8 outbox_id; ?9 at most this many;
-- ?10 older than, ?11 below this number, ?12 above this number.
SELECT audit_id, created_at, updated_at, actor_user_id, target_space, action, reason, payload_sha,
       evidence_refs_json, correlation_id, status
FROM write_audit
WHERE (?1 IS NULL OR created_at >= ?1)
  AND (?2 IS NULL OR actor_user_id = ?2)
  AND (?3 IS NULL OR action = ?3)
  AND (?4 IS NULL OR target_space = ?4)
  AND (?5 IS NULL OR substr(reason, 1, length(?5)) = ?5)
  AND correlation_id = ?6 AND (?8 IS NULL OR outbox_id = ?8)
  AND (?11 IS NULL OR audit_id < ?11) AND (?12 IS NULL OR audit_id > ?12)
  AND (?7 IS NULL OR status = ?7) AND (?10 IS NULL OR created_at < ?10)
ORDER BY audit_id DESC LIMIT ?9
