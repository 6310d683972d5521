-- Attaches something unless it is attached. ?1 item, ?2 kind, ?3 uri, ?4 sha256, ?5 size, ?6 meta,
-- ?7 now.
INSERT INTO attachments (item_id, kind, uri, sha256, size_bytes, meta_json, created_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (item_id, kind, sha256) DO NOTHING
