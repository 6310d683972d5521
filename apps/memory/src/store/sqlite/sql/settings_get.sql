-- The settings of a project. ?1 project.
SELECT project_key, team_write_enabled, policy_json, updated_by, updated_at
FROM governance_settings WHERE project_key = ?1
