-- Delivered messages, newest first, along attempt's primary key: what was never tried costs
-- nothing. ?1 queue or null, ?2 smaller than this id, ?3 at most this many, ?4 not smaller than this id.
SELECT message_id FROM attempt
WHERE message_id < ?2 AND message_id >= ?4 AND outcome = 'delivered'
  AND (?1 IS NULL OR (SELECT queue FROM message WHERE id = message_id) = ?1)
ORDER BY message_id DESC LIMIT ?3
