-- What decides whether messages can be erased, beside their states. By primary keys. ?1 JSON array of ids.
SELECT m.id,
       EXISTS (SELECT 1 FROM erasure WHERE message_id = m.id),
       EXISTS (SELECT 1 FROM group_head AS h
               WHERE h.queue = m.queue AND h."group" = m."group" AND h.message_id = m.id),
       EXISTS (SELECT 1 FROM queue WHERE name = m.queue AND app IS NOT NULL),
       m.payload
FROM json_each(?1) AS wanted
CROSS JOIN message AS m ON m.id = wanted.value
