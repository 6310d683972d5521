-- Commits or revisions of a repository (?1) after a position (?2), at most ?3. A repository has one kind only.
SELECT git_commit_id AS position, repo_id, source_id, commit_sha AS rev_or_sha, author_raw, ts, message,
       is_merge, bulk_reason, meta_json
FROM scm_git_commits INDEXED BY scm_git_commits_position
WHERE repo_id = ?1 AND git_commit_id > ?2
UNION ALL
SELECT rev_num, repo_id, source_id, CAST(rev_num AS TEXT), author_raw, ts, message, 0, bulk_reason, meta_json
FROM scm_svn_revisions WHERE repo_id = ?1 AND rev_num > ?2
ORDER BY position
LIMIT ?3
