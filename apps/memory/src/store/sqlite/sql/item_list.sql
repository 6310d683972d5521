-- Items that fit, newest first. Parameters that are null fit everything: ?1 type, ?2 status,
-- ?3 owner; ?4 at most this many.
SELECT item_id, item_type, title, project_key, scope_json, status, owner_user_id, created_at,
       updated_at
FROM items
WHERE (?1 IS NULL OR item_type = ?1) AND (?2 IS NULL OR status = ?2)
  AND (?3 IS NULL OR owner_user_id = ?3)
ORDER BY created_at DESC, item_id DESC LIMIT ?4
