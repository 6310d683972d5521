-- Changes the status of an item. ?1 item, ?2 status, ?3 now.
UPDATE items SET status = ?2, updated_at = ?3 WHERE item_id = ?1
