-- Dead messages, newest first, along the primary key. ?1 queue or null, ?2 unused (see
-- dead_list_code), ?3 smaller than this id, ?4 at most this many.
SELECT message_id, queue, at, attempt_no, code, detail FROM dead
WHERE message_id < ?3 AND (?1 IS NULL OR queue = ?1) AND ?2 IS NULL
ORDER BY message_id DESC LIMIT ?4
