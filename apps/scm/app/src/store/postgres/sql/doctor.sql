-- Checks that the counts of repositories are correct and the gateway's cursors are within the history.
SELECT 'scm_counts_wrong' AS code,
       'repository ' || r.repo_id || ' has counts of ' || r.changes || ' changes, ' || r.patches_here || ' fetched and ' || r.patches_failed
           || ' failed; correct are ' || n.changes || ', ' || n.here || ' and ' || n.failed AS what,
       'as owner: UPDATE scm.repos SET changes = ' || n.changes || ', patches_here = ' || n.here || ', patches_failed = ' || n.failed
           || ' WHERE repo_id = ' || r.repo_id || '; find out what writes past the functions of scm' AS remedy,
       '{}'::bigint[] AS ids
    FROM scm.repos r
    JOIN (SELECT k.repo_id, coalesce(c.changes, 0) AS changes, coalesce(p.here, 0) AS here, coalesce(p.failed, 0) AS failed
              FROM scm.repos k
              LEFT JOIN (SELECT g.repo_id, count(*) AS changes FROM scm.git_commits g GROUP BY g.repo_id
                         UNION ALL
                         SELECT s.repo_id, count(*) FROM scm.svn_revisions s GROUP BY s.repo_id) c ON c.repo_id = k.repo_id
              LEFT JOIN (SELECT b.source_type, split_part(b.source_id, ':', 1) AS repo,
                                count(DISTINCT b.source_id) FILTER (WHERE b.uri IS NOT NULL) AS here, count(*) FILTER (WHERE b.uri IS NULL) AS failed
                             FROM scm.patch_blobs b GROUP BY 1, 2) p ON p.source_type = k.repo_type AND p.repo = k.repo_id::text) n
        ON n.repo_id = r.repo_id
    WHERE (r.changes, r.patches_here, r.patches_failed) <> (n.changes, n.here, n.failed)
UNION ALL
SELECT 'scm_cursor_ahead', 'the cursor of repository ' || s.repo_id || ' is at ' || s.consumed_position
           || ', but its history ends at ' || coalesce(s.last_position, 0) || ': the next changes would be skipped',
       'move the cursor to the end of the history with `consign scm rewind`', '{}'::bigint[]
    FROM scm.status() s WHERE s.consumed_position > coalesce(s.last_position, 0)
