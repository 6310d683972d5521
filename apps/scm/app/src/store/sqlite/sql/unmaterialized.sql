-- Commits or revisions of a repository (?1) after a position (?2) whose change was never fetched, at most
-- ?3. A repository has one kind only; the other kind is not scanned.
SELECT c.git_commit_id AS position, c.commit_sha AS rev_or_sha, 0 AS attempts, NULL AS error
FROM scm_repos AS r
CROSS JOIN scm_git_commits AS c INDEXED BY scm_git_commits_position
WHERE r.repo_id = ?1 AND r.changes > r.patches_here + r.patches_failed AND c.repo_id = ?1
  AND c.git_commit_id > ?2
  AND NOT EXISTS (SELECT 1 FROM scm_patch_blobs AS p
                  WHERE p.source_type = 'git' AND p.source_id = c.repo_id || ':' || c.commit_sha)
UNION ALL
SELECT s.rev_num, CAST(s.rev_num AS TEXT), 0, NULL
FROM scm_repos AS r
CROSS JOIN scm_svn_revisions AS s
WHERE r.repo_id = ?1 AND r.changes > r.patches_here + r.patches_failed AND s.repo_id = ?1 AND s.rev_num > ?2
  AND NOT EXISTS (SELECT 1 FROM scm_patch_blobs AS p
                  WHERE p.source_type = 'svn' AND p.source_id = s.repo_id || ':' || s.rev_num)
ORDER BY position
LIMIT ?3
