-- The project of an item. ?1 item.
SELECT project_key FROM items WHERE item_id = ?1
