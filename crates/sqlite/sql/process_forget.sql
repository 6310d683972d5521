-- ?1 since when processes are kept, ?2 how many: those with the latest heartbeat.
DELETE FROM process
WHERE seen_at < ?1
    OR (seen_at, name) <= (SELECT seen_at, name FROM process ORDER BY seen_at DESC, name DESC LIMIT 1 OFFSET ?2)
