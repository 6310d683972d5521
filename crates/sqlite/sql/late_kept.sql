-- Those of these messages that have a late result of this token, in the order given.
-- ?1 JSON array of ids, ?2 token, ?3 its owner, or NULL for any.
SELECT wanted.value FROM json_each(?1) AS wanted
WHERE EXISTS (SELECT 1 FROM late
              WHERE message_id = wanted.value AND token = ?2 AND (?3 IS NULL OR owner = ?3))
ORDER BY wanted.key
