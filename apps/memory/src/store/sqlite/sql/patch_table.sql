-- Whether the database has patches of repositories: the app `scm` may not be installed.
SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'scm_patch_blobs')
