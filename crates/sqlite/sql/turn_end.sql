-- Frees the turns of groups with nobody left. ?1 queue, ?2 JSON array of groups.
DELETE FROM turn WHERE queue = ?1 AND "group" IN (SELECT value FROM json_each(?2))
