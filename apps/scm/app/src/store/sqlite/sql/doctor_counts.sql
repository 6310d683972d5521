-- Repositories with wrong counts.
SELECT r.repo_id, r.changes, r.patches_here, r.patches_failed, n.changes, n.here, n.failed
FROM scm_repos AS r
JOIN (SELECT k.repo_id,
             (SELECT count(*) FROM scm_git_commits AS c WHERE c.repo_id = k.repo_id)
             + (SELECT count(*) FROM scm_svn_revisions AS s WHERE s.repo_id = k.repo_id) AS changes,
             coalesce(p.here, 0) AS here, coalesce(p.failed, 0) AS failed
      FROM scm_repos AS k
      LEFT JOIN (SELECT source_type, substr(source_id, 1, instr(source_id, ':') - 1) AS repo,
                        count(DISTINCT CASE WHEN uri IS NOT NULL THEN source_id END) AS here,
                        sum(uri IS NULL) AS failed
                 FROM scm_patch_blobs GROUP BY 1, 2) AS p
          ON p.source_type = k.repo_type AND p.repo = CAST(k.repo_id AS TEXT)) AS n
    ON n.repo_id = r.repo_id
WHERE (r.changes, r.patches_here, r.patches_failed) <> (n.changes, n.here, n.failed)
ORDER BY r.repo_id
