-- Messages of every queue, newest first, along the primary key.
-- ?1 unused, ?2 smaller than this id, ?3 at most this many.
SELECT id FROM message WHERE id < ?2 AND ?1 IS NULL ORDER BY id DESC LIMIT ?3
