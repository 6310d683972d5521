-- Commits or revisions of a repository ($1) after a position ($2), at most $3. A repository has one kind only.
(SELECT c.git_commit_id AS position, c.repo_id, c.source_id, c.commit_sha AS rev_or_sha, c.author_raw, c.ts, c.message, c.is_merge,
        c.bulk_reason, c.meta_json
    FROM scm.git_commits c WHERE c.repo_id = $1 AND c.git_commit_id > $2 ORDER BY c.git_commit_id LIMIT $3)
UNION ALL
(SELECT s.rev_num, s.repo_id, s.source_id, s.rev_num::text, s.author_raw, s.ts, s.message, false, s.bulk_reason, s.meta_json
    FROM scm.svn_revisions s WHERE s.repo_id = $1 AND s.rev_num > $2 ORDER BY s.rev_num LIMIT $3)
