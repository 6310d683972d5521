-- Stores a change or a failure to fetch it, over the row of an earlier failure (?1) or as a new one
-- (?1 null). ?2 type, ?3 source, ?4 URI, ?5 hash, ?6 size, ?7 format, ?8 meta_json, ?9 now.
INSERT INTO scm_patch_blobs (blob_id, source_type, source_id, uri, sha256, size_bytes, format, meta_json,
                             created_at, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9)
ON CONFLICT (blob_id) DO UPDATE
SET uri = excluded.uri, sha256 = excluded.sha256, size_bytes = excluded.size_bytes,
    format = excluded.format, meta_json = excluded.meta_json, updated_at = excluded.updated_at
RETURNING blob_id
