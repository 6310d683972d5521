-- The item that a repository's (?1) events belong to.
SELECT item_id FROM items WHERE item_type = 'scm_repo' AND scope_json ->> '$.repo_id' = ?1
ORDER BY item_id
LIMIT 1
