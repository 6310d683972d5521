-- Commits or revisions of a repository (?1) whose change could not be fetched, after so many attempts
-- (?2) and a position (?3), at most ?4. Fewest failures first.
SELECT c.git_commit_id AS position, c.commit_sha AS rev_or_sha,
       coalesce(p.meta_json ->> '$.attempts', 0) AS attempts, p.meta_json ->> '$.materialize_error' AS error
FROM scm_patch_blobs AS p INDEXED BY scm_patch_blobs_failed
CROSS JOIN scm_git_commits AS c ON c.source_id = 'git:' || p.source_id
WHERE p.source_type = 'git' AND p.uri IS NULL AND p.source_id >= ?1 || ':' AND p.source_id < ?1 || ';'
  AND (coalesce(p.meta_json ->> '$.attempts', 0), c.git_commit_id) > (?2, ?3)
UNION ALL
SELECT s.rev_num, CAST(s.rev_num AS TEXT),
       coalesce(p.meta_json ->> '$.attempts', 0), p.meta_json ->> '$.materialize_error'
FROM scm_patch_blobs AS p INDEXED BY scm_patch_blobs_failed
CROSS JOIN scm_svn_revisions AS s ON s.source_id = 'svn:' || p.source_id
WHERE p.source_type = 'svn' AND p.uri IS NULL AND p.source_id >= ?1 || ':' AND p.source_id < ?1 || ';'
  AND (coalesce(p.meta_json ->> '$.attempts', 0), s.rev_num) > (?2, ?3)
ORDER BY attempts, position
LIMIT ?4
