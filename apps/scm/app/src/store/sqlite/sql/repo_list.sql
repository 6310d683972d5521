-- Repositories, oldest first. ?1 one of them, null: all.
SELECT repo_id, provider, url, project_key, default_branch, created_at
FROM scm_repos
WHERE ?1 IS NULL OR repo_id = ?1
ORDER BY repo_id
