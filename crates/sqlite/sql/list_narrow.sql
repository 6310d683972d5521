-- Which of these messages match what no index has, newest first.
-- ?1 JSON array of ids, ?2 queue or null, ?3 key or null, ?4 beginning of the key or null, ?5 group or null, ?6 correlation id or null, ?7 JSON object of headers or null, ?8 since or null, ?9 until or null,
-- ?10 at most this many.
SELECT m.id
FROM json_each(?1) AS candidate
CROSS JOIN message AS m ON m.id = candidate.value
WHERE (?2 IS NULL OR m.queue = ?2) AND (?3 IS NULL OR m.key = ?3)
  AND (?4 IS NULL OR (m.key IS NOT NULL AND substr(m.key, 1, length(?4)) = ?4))
  AND (?5 IS NULL OR m."group" = ?5)
  AND (?6 IS NULL OR (json_type(m.headers, '$.correlation_id') = 'text'
                      AND m.headers ->> '$.correlation_id' = ?6))
  AND (?7 IS NULL OR NOT EXISTS (
          SELECT 1 FROM json_each(?7) AS wanted
          WHERE NOT EXISTS (SELECT 1 FROM json_each(m.headers) AS own
                            WHERE own.key = wanted.key AND own.type = 'text' AND own.atom = wanted.atom)))
  AND (?8 IS NULL OR m.created_at >= ?8) AND (?9 IS NULL OR m.created_at < ?9)
ORDER BY m.id DESC LIMIT ?10
