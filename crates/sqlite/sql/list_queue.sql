-- Messages of one queue, newest first. Uses message_queue.
-- ?1 queue, ?2 smaller than this id, ?3 at most this many.
SELECT id FROM message WHERE queue = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3
