-- Inserts a repository unless it exists. ?1 type, ?2 provider, ?3 URL, ?4 now.
INSERT INTO scm_repos (repo_type, provider, url, created_at) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (repo_type, url) DO NOTHING
