-- Sets project and branch of a repository, where they are not null. ?1 type, ?2 URL, ?3 project, ?4 branch.
UPDATE scm_repos
SET project_key = coalesce(?3, project_key), default_branch = coalesce(?4, default_branch)
WHERE repo_type = ?1 AND url = ?2
RETURNING repo_id, provider, url, project_key, default_branch, created_at
