-- The next messages of a window with their sizes, as two parallel JSON arrays. By primary key; a payload in overflow pages
-- is not read for its length. ?1 greater than this id, ?2 last id, ?3 at most this many.
SELECT json_group_array(id), json_group_array(bytes)
FROM (SELECT id, octet_length(payload) + octet_length(headers) AS bytes FROM message
      WHERE id > ?1 AND id <= ?2 ORDER BY id LIMIT ?3)
