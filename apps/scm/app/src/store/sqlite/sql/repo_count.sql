-- Updates the counts of a repository. ?1 repository, ?2 changes, ?3 stored patches,
-- ?4 failed patches; each is a difference.
UPDATE scm_repos
SET changes = changes + ?2, patches_here = patches_here + ?3, patches_failed = patches_failed + ?4
WHERE repo_id = ?1
