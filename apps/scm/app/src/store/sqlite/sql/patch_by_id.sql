-- A change by its id (?1).
SELECT blob_id, source_type, source_id, uri, evidence_uri, sha256, size_bytes, format, meta_json
FROM scm_patch_blobs
WHERE blob_id = ?1
