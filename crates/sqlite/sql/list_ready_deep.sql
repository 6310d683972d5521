-- The same as list_ready where the batches are many: from the newest message, what is in no other
-- place. ?1 queue or null, ?2 smaller than this id, ?3 at most this many, ?4 not smaller than this id.
SELECT m.id FROM message AS m
WHERE m.id < ?2 AND m.id >= ?4 AND (?1 IS NULL OR m.queue = ?1)
  AND NOT EXISTS (SELECT 1 FROM attempt WHERE message_id = m.id AND outcome = 'delivered')
  AND NOT EXISTS (SELECT 1 FROM dead WHERE message_id = m.id)
  AND NOT EXISTS (SELECT 1 FROM discarded WHERE message_id = m.id)
  AND NOT EXISTS (SELECT 1 FROM held WHERE message_id = m.id)
  AND NOT EXISTS (SELECT 1 FROM waiting WHERE message_id = m.id)
  AND m.id NOT IN (SELECT leased.value FROM lease, json_each(lease.ids) AS leased)
ORDER BY m.id DESC LIMIT ?3
