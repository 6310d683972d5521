-- Commits or revisions of a repository ($1) after a position ($2) whose change is not here, at most $3.
-- It has one kind only, and is not looked through while all changes are here.
(SELECT c.git_commit_id AS position, c.commit_sha AS rev_or_sha, coalesce((f.meta_json->>'attempts')::int, 0) AS attempts,
        f.meta_json->>'materialize_error' AS error
    FROM scm.git_commits c
    LEFT JOIN scm.patch_blobs f ON f.source_type = 'git' AND f.source_id = c.repo_id || ':' || c.commit_sha AND f.uri IS NULL
    WHERE c.repo_id = $1 AND c.git_commit_id > $2 AND (SELECT r.changes > r.patches_here FROM scm.repos r WHERE r.repo_id = $1) AND NOT EXISTS (
        SELECT FROM scm.patch_blobs h
            WHERE h.source_type = 'git' AND h.source_id = c.repo_id || ':' || c.commit_sha AND h.uri IS NOT NULL)
    ORDER BY c.git_commit_id LIMIT $3)
UNION ALL
(SELECT s.rev_num, s.rev_num::text, coalesce((f.meta_json->>'attempts')::int, 0), f.meta_json->>'materialize_error'
    FROM scm.svn_revisions s
    LEFT JOIN scm.patch_blobs f ON f.source_type = 'svn' AND f.source_id = s.repo_id || ':' || s.rev_num AND f.uri IS NULL
    WHERE s.repo_id = $1 AND s.rev_num > $2 AND (SELECT r.changes > r.patches_here FROM scm.repos r WHERE r.repo_id = $1) AND NOT EXISTS (
        SELECT FROM scm.patch_blobs h WHERE h.source_type = 'svn' AND h.source_id = s.repo_id || ':' || s.rev_num AND h.uri IS NOT NULL)
    ORDER BY s.rev_num LIMIT $3)
