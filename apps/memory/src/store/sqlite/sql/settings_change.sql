-- Changes settings that exist. ?1 project, ?2 team_write_enabled, ?3 policy, ?4 by whom, ?5 now.
UPDATE governance_settings
SET team_write_enabled = ?2, policy_json = ?3, updated_by = ?4, updated_at = ?5
WHERE project_key = ?1
RETURNING project_key, team_write_enabled, policy_json, updated_by, updated_at
