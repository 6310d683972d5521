-- Ready messages, newest first. Takes every ready run apart.
-- ?1 lane or null, ?2 smaller than this id, ?3 at most this many.
SELECT ids.value
FROM ready AS r, json_each(r.ids) AS ids
WHERE (?1 IS NULL OR r.lane = ?1) AND ids.value < ?2
ORDER BY ids.value DESC LIMIT ?3
