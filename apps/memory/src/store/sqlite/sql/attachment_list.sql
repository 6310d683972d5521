-- Attachments that fit, newest first. Parameters that are null fit everything: ?1 item, ?2 kind,
-- ?3 uri; ?4 at most this many.
SELECT a.attachment_id, a.item_id, a.kind, a.uri, a.sha256, a.size_bytes, a.meta_json,
       a.created_at,
       CASE json_type(i.scope_json, '$.space') WHEN 'text' THEN i.scope_json ->> '$.space'
       ELSE 'team:' || i.project_key END AS space
FROM attachments AS a LEFT JOIN items AS i ON i.item_id = a.item_id
WHERE (?1 IS NULL OR a.item_id = ?1) AND (?2 IS NULL OR a.kind = ?2) AND (?3 IS NULL OR a.uri = ?3)
ORDER BY a.created_at DESC, a.attachment_id DESC LIMIT ?4
