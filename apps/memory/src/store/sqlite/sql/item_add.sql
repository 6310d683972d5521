-- Makes an item. ?1 type, ?2 title, ?3 project, ?4 scope, ?5 status, ?6 owner, ?7 now.
INSERT INTO items (item_type, title, project_key, scope_json, status, owner_user_id, created_at,
                   updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7)
RETURNING item_id
