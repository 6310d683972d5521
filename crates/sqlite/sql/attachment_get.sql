-- An attachment. ?1 attachment.
SELECT attachment_id, item_id, kind, uri, sha256, size_bytes, meta_json, created_at
FROM attachments WHERE attachment_id = ?1
