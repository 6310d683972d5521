-- How many messages a window of ids has. ?1 first id, ?2 last id.
SELECT count(*) FROM message WHERE id >= ?1 AND id <= ?2
