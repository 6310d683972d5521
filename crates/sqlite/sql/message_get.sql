-- One message by primary key. ?1 id.
SELECT id, queue, key, "group", created_at, expires_at, headers, payload FROM message WHERE id = ?1
