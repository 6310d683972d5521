-- Makes the settings of a project: team writes off, an empty policy. ?1 project, ?2 now.
INSERT INTO governance_settings (project_key, updated_at) VALUES (?1, ?2)
ON CONFLICT (project_key) DO NOTHING
