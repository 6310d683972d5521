-- Status of every repository without its watermarks. Scans the changes that the gateway has not consumed.
WITH repo_state AS (
    SELECT r.*,
           coalesce((SELECT CASE WHEN json_type(k.value_json, '$.' || f.name) = 'integer'
                                 THEN k.value_json ->> ('$.' || f.name) END
                     FROM kv AS k
                     WHERE k.namespace = 'gateway.consume' AND k.key = 'scm_consume:' || r.repo_id), 0)
               AS consumed_position,
           CASE r.repo_type
               WHEN 'svn' THEN (SELECT max(rev_num) FROM scm_svn_revisions WHERE repo_id = r.repo_id)
               ELSE (SELECT max(git_commit_id) FROM scm_git_commits INDEXED BY scm_git_commits_position
                     WHERE repo_id = r.repo_id)
           END AS last_position
    FROM scm_repos AS r
    JOIN (SELECT 'svn' AS repo_type, 'last_processed_rev' AS name
          UNION ALL SELECT 'git', 'last_processed_id') AS f ON f.repo_type = r.repo_type
)
SELECT s.repo_id, s.provider, s.url, s.project_key, s.default_branch, s.created_at, s.changes,
       s.patches_here, s.patches_failed, s.consumed_position, s.last_position,
       CASE s.repo_type
           WHEN 'svn' THEN (SELECT ts FROM scm_svn_revisions
                            WHERE repo_id = s.repo_id AND rev_num = s.last_position)
           ELSE (SELECT ts FROM scm_git_commits WHERE git_commit_id = s.last_position)
       END AS last_change_at,
       CASE s.repo_type
           WHEN 'svn' THEN (SELECT count(*) FROM scm_svn_revisions
                            WHERE repo_id = s.repo_id AND rev_num > s.consumed_position)
           ELSE (SELECT count(*) FROM scm_git_commits INDEXED BY scm_git_commits_position
                 WHERE repo_id = s.repo_id AND git_commit_id > s.consumed_position)
       END AS unconsumed
FROM repo_state AS s
ORDER BY s.repo_id
