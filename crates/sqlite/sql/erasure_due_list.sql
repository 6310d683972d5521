-- Erasures that the archive is still to be cleared of, by primary keys. ?1 at most this many.
SELECT e.message_id, e.at, e.actor, e.reason, lower(hex(e.digest)) FROM erasure_due AS d
CROSS JOIN erasure AS e ON e.message_id = d.message_id
ORDER BY d.message_id LIMIT ?1
