-- Counts what was written for a repository. ?1 repository, ?2 changes, ?3 patches that are here now,
-- ?4 patches that could not be fetched; each is how many more there are, less than 0: fewer.
UPDATE scm_repos
SET changes = changes + ?2, patches_here = patches_here + ?3, patches_failed = patches_failed + ?4
WHERE repo_id = ?1
