-- Commits or revisions of a repository ($1) after a position ($2) whose change was never fetched, at most
-- $3. A repository has one kind only; the other kind is not scanned.
(SELECT c.git_commit_id AS position, c.commit_sha AS rev_or_sha, 0 AS attempts, NULL::text AS error
    FROM scm.git_commits c
    WHERE c.repo_id = $1 AND c.git_commit_id > $2
        AND (SELECT r.changes > r.patches_here + r.patches_failed FROM scm.repos r WHERE r.repo_id = $1)
        AND NOT EXISTS (SELECT FROM scm.patch_blobs p WHERE p.source_type = 'git' AND p.source_id = c.repo_id || ':' || c.commit_sha)
    ORDER BY c.git_commit_id LIMIT $3)
UNION ALL
(SELECT s.rev_num, s.rev_num::text, 0, NULL
    FROM scm.svn_revisions s
    WHERE s.repo_id = $1 AND s.rev_num > $2
        AND (SELECT r.changes > r.patches_here + r.patches_failed FROM scm.repos r WHERE r.repo_id = $1)
        AND NOT EXISTS (SELECT FROM scm.patch_blobs p WHERE p.source_type = 'svn' AND p.source_id = s.repo_id || ':' || s.rev_num)
    ORDER BY s.rev_num LIMIT $3)
