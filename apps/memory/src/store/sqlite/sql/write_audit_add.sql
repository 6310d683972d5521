-- Writes an audit. ?1 now, ?2 actor, ?3 space, ?4 action, ?5 reason, ?6 payload_sha,
-- ?7 evidence_refs_json, ?8 correlation_id, ?9 status.
INSERT INTO write_audit (created_at, actor_user_id, target_space, action, reason, payload_sha,
                         evidence_refs_json, correlation_id, status)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
RETURNING audit_id
