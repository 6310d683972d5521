-- What a write depends on: whether the memory was sent (uses message_key and attempt's key) or stored
-- directly (uses write_audit_stored), the settings, the user, and whether the request has a pending
-- audit. ?1 key, ?2 space, ?3 payload_sha, ?4 project, ?5 user, ?6 correlation_id.
SELECT (SELECT json_object('outbox_id', m.id, 'memory_id',
                           CASE WHEN json_valid(a.result) THEN a.result ->> '$.memory_id' END)
        FROM message AS m JOIN attempt AS a ON a.message_id = m.id AND a.outcome = 'delivered'
        WHERE m.lane = 'memory' AND m.key = ?1
        ORDER BY a.attempt_no DESC LIMIT 1) AS sent,
       (SELECT evidence_refs_json ->> '$.memory_id'
        FROM write_audit
        WHERE target_space = ?2 AND payload_sha = ?3 AND status = 'success'
          AND evidence_refs_json ->> '$.gateway_event.operation' = 'memory_store'
          AND json_type(evidence_refs_json, '$.memory_id') = 'text'
        ORDER BY audit_id DESC LIMIT 1) AS stored,
       (SELECT json_array(team_write_enabled, json(policy_json))
        FROM governance_settings WHERE project_key = ?4) AS settings,
       EXISTS (SELECT 1 FROM identity_users WHERE user_id = ?5 AND is_active) AS is_user,
       EXISTS (SELECT 1 FROM write_audit WHERE correlation_id = ?6 AND status = 'pending') AS is_open
