-- The space of an item: from its scope, or its project. ?1 item.
SELECT CASE json_type(scope_json, '$.space') WHEN 'text' THEN scope_json ->> '$.space'
       ELSE 'team:' || project_key END
FROM items WHERE item_id = ?1
