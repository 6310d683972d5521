-- The rows of the change of a commit or revision: stored ones first, the newest first. ?1 repository, ?2 commit or revision.
SELECT p.blob_id, p.source_type, p.source_id, p.uri, p.evidence_uri, p.sha256, p.size_bytes, p.format,
       p.meta_json
FROM scm_repos AS r
JOIN scm_patch_blobs AS p ON p.source_type = r.repo_type AND p.source_id = r.repo_id || ':' || ?2
WHERE r.repo_id = ?1
ORDER BY p.uri IS NULL, p.blob_id DESC
