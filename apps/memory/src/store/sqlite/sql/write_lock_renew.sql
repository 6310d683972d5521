-- Renews a write lock; returns whether another holder is next. ?1 destination, ?2 holder, ?3 now, ?4 until
-- when it lasts.
UPDATE memory_write_lock SET expires_at = ?4 WHERE destination = ?1 AND holder = ?2
RETURNING coalesce(next_until > ?3, 0) AS is_wanted
