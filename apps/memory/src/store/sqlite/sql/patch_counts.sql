-- Patches of repositories, and those of them that can be followed.
SELECT count(*), count(evidence_uri) FROM scm_patch_blobs
