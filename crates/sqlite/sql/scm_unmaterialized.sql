-- Commits or revisions of a repository (?1) after a position (?2) whose change is not here, at most ?3. It
-- has one kind only, and is not looked through while all changes are here.
SELECT c.git_commit_id AS position, c.commit_sha AS rev_or_sha,
       coalesce(f.meta_json ->> '$.attempts', 0) AS attempts, f.meta_json ->> '$.materialize_error' AS error
FROM scm_repos AS r
CROSS JOIN scm_git_commits AS c INDEXED BY scm_git_commits_position
LEFT JOIN scm_patch_blobs AS f
    ON f.source_type = 'git' AND f.source_id = c.repo_id || ':' || c.commit_sha AND f.uri IS NULL
WHERE r.repo_id = ?1 AND r.changes > r.patches_here AND c.repo_id = ?1 AND c.git_commit_id > ?2
  AND NOT EXISTS (SELECT 1 FROM scm_patch_blobs AS h
                  WHERE h.source_type = 'git' AND h.source_id = c.repo_id || ':' || c.commit_sha
                    AND h.uri IS NOT NULL)
UNION ALL
SELECT s.rev_num, CAST(s.rev_num AS TEXT),
       coalesce(f.meta_json ->> '$.attempts', 0), f.meta_json ->> '$.materialize_error'
FROM scm_repos AS r
CROSS JOIN scm_svn_revisions AS s
LEFT JOIN scm_patch_blobs AS f
    ON f.source_type = 'svn' AND f.source_id = s.repo_id || ':' || s.rev_num AND f.uri IS NULL
WHERE r.repo_id = ?1 AND r.changes > r.patches_here AND s.repo_id = ?1 AND s.rev_num > ?2
  AND NOT EXISTS (SELECT 1 FROM scm_patch_blobs AS h
                  WHERE h.source_type = 'svn' AND h.source_id = s.repo_id || ':' || s.rev_num
                    AND h.uri IS NOT NULL)
ORDER BY position
LIMIT ?3
