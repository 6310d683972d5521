-- Commits or revisions of a repository ($1) whose change could not be fetched, after so many attempts
-- ($2) and a position ($3), at most $4. Fewest failures first.
SELECT p.position, p.rev_or_sha, p.attempts, p.error
    FROM (SELECT c.git_commit_id AS position, c.commit_sha AS rev_or_sha, coalesce((f.meta_json->>'attempts')::int, 0) AS attempts,
                 f.meta_json->>'materialize_error' AS error
              FROM scm.patch_blobs f JOIN scm.git_commits c ON c.source_id = 'git:' || f.source_id
              WHERE f.source_type = 'git' AND f.uri IS NULL
                  AND f.source_id >= $1::bigint || ':' AND f.source_id < $1::bigint || ';'
          UNION ALL
          SELECT s.rev_num, s.rev_num::text, coalesce((f.meta_json->>'attempts')::int, 0), f.meta_json->>'materialize_error'
              FROM scm.patch_blobs f JOIN scm.svn_revisions s ON s.source_id = ('svn:' || f.source_id) COLLATE "default"
              WHERE f.source_type = 'svn' AND f.uri IS NULL
                  AND f.source_id >= $1::bigint || ':' AND f.source_id < $1::bigint || ';') p
    WHERE (p.attempts, p.position) > ($2, $3)
    ORDER BY p.attempts, p.position LIMIT $4
