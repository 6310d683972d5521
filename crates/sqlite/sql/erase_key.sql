-- The message that has a key, in the store or before it left. ?1 queue, ?2 key.
SELECT id FROM message WHERE queue = ?1 AND key = ?2
UNION ALL SELECT message_id FROM former_key WHERE queue = ?1 AND key = ?2
