-- Leased messages, newest first. Unnests every lease; they are few.
-- ?1 queue or null, ?2 smaller than this id, ?3 at most this many.
SELECT ids.value
FROM lease AS l, json_each(l.ids) AS ids
WHERE (?1 IS NULL OR l.queue = ?1) AND ids.value < ?2
ORDER BY ids.value DESC LIMIT ?3
