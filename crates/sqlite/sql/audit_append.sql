-- Records operator actions, in the order given.
-- ?1 JSON array of [queue or null, message_id or null], ?2 at, ?3 actor, ?4 action, ?5 reason.
INSERT INTO audit (at, actor, action, queue, message_id, reason)
SELECT ?2, ?3, ?4, value ->> 0, value ->> 1, ?5 FROM json_each(?1)
