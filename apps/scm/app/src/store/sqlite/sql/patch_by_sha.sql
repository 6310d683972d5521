-- A stored change by its hash (?1).
SELECT blob_id, source_type, source_id, uri, evidence_uri, sha256, size_bytes, format, meta_json
FROM scm_patch_blobs
WHERE sha256 = ?1 AND uri IS NOT NULL
ORDER BY blob_id
LIMIT 1
