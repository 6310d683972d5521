-- What a redrive would take first of the dead, along the primary key. ?1 queue or null, ?2 code or null,
-- ?3 at most this many, ?4 whether also the erased.
SELECT message_id, queue, at, attempt_no, code, detail FROM dead
WHERE (?4 OR NOT EXISTS (SELECT 1 FROM erasure WHERE erasure.message_id = dead.message_id))
  AND (?1 IS NULL OR queue = ?1) AND (?2 IS NULL OR code = ?2)
ORDER BY message_id LIMIT ?3
