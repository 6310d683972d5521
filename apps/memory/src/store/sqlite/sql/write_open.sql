-- What a write was decided by, and whether the request has a pending audit. ?1 project, ?2 user,
-- ?3 correlation_id.
SELECT (SELECT json_array(team_write_enabled, json(policy_json))
        FROM governance_settings WHERE project_key = ?1) AS settings,
       EXISTS (SELECT 1 FROM identity_users WHERE user_id = ?2 AND is_active) AS is_user,
       EXISTS (SELECT 1 FROM write_audit WHERE correlation_id = ?3 AND status = 'pending') AS is_open
