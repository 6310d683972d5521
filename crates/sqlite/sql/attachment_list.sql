-- Attachments that fit, newest first. Parameters that are null fit everything: ?1 item, ?2 kind;
-- ?3 at most this many.
SELECT attachment_id, item_id, kind, uri, sha256, size_bytes, meta_json, created_at
FROM attachments
WHERE (?1 IS NULL OR item_id = ?1) AND (?2 IS NULL OR kind = ?2)
ORDER BY created_at DESC, attachment_id DESC LIMIT ?3
