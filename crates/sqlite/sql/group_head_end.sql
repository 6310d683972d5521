-- Removes the heads of groups without messages. ?1 queue, ?2 JSON array of groups.
DELETE FROM group_head WHERE queue = ?1 AND "group" IN (SELECT value FROM json_each(?2))
