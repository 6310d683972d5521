-- Ready messages, newest first. Unnests every ready batch: for when ready_is_deep says no.
-- ?1 queue or null, ?2 smaller than this id, ?3 at most this many, ?4 not smaller than this id.
SELECT ids.value
FROM ready AS r, json_each(r.ids) AS ids
WHERE (?1 IS NULL OR r.queue = ?1) AND ids.value < ?2 AND ids.value >= ?4
ORDER BY ids.value DESC LIMIT ?3
