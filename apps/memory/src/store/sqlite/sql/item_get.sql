-- An item. ?1 item.
SELECT item_id, item_type, title, project_key, scope_json, status, owner_user_id, created_at,
       updated_at
FROM items WHERE item_id = ?1
