-- An attachment. ?1 attachment.
SELECT a.attachment_id, a.item_id, a.kind, a.uri, a.sha256, a.size_bytes, a.meta_json,
       a.created_at,
       CASE json_type(i.scope_json, '$.space') WHEN 'text' THEN i.scope_json ->> '$.space'
       ELSE 'team:' || i.project_key END AS space
FROM attachments AS a LEFT JOIN items AS i ON i.item_id = a.item_id
WHERE a.attachment_id = ?1
