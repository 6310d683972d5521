-- Takes a write lock if it is free, or becomes the next holder if there is none. ?1 destination,
-- ?2 holder, ?3 now, ?4 until when the write lock lasts, ?5 until when the next holder stays next. A place that is
-- good for a while is not written again.
INSERT INTO memory_write_lock (destination, holder, expires_at) VALUES (?1, ?2, ?4)
ON CONFLICT (destination) DO UPDATE SET
    (holder, expires_at, next_holder, next_until) = (
        SELECT iif(is_free, ?2, memory_write_lock.holder), iif(is_free, ?4, memory_write_lock.expires_at),
               iif(is_free, NULL, ?2), iif(is_free, NULL, ?5)
        FROM (SELECT coalesce(memory_write_lock.holder = ?2, 1) OR memory_write_lock.expires_at <= ?3 AS is_free))
WHERE (coalesce(next_holder = ?2, 1) OR next_until <= ?3)
  AND (coalesce(holder = ?2, 1) OR expires_at <= ?3
       OR next_holder IS NOT ?2 OR next_until < (?3 + ?5) / 2)
RETURNING holder = ?2 AS is_mine
