-- The messages that have these keys, in the store or before they left, or were erased, which have a digest in place of a payload. Uses
-- message_key and the primary key of former_key. ?1 JSON array of [queue, key].
SELECT wanted.key, coalesce(m.id, f.message_id),
       CASE WHEN m.id IS NULL THEN f."group" ELSE m."group" END,
       CASE WHEN e.message_id IS NULL THEN m.payload END, coalesce(e.digest, f.digest),
       CASE WHEN m.id IS NULL THEN f.died ELSE EXISTS (SELECT 1 FROM dead WHERE message_id = m.id) END,
       CASE WHEN m.id IS NULL THEN f.discarded ELSE EXISTS (SELECT 1 FROM discarded WHERE message_id = m.id) END
FROM json_each(?1) AS wanted
LEFT JOIN message AS m ON m.queue = wanted.value ->> 0 AND m.key = wanted.value ->> 1
LEFT JOIN erasure AS e ON e.message_id = m.id
LEFT JOIN former_key AS f ON f.queue = wanted.value ->> 0 AND f.key = wanted.value ->> 1
WHERE m.id IS NOT NULL OR f.message_id IS NOT NULL
