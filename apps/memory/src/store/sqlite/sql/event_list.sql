-- Events that fit, newest first. Parameters that are null fit everything: ?1 item, ?2 type,
-- ?3 actor, ?4 not older than; ?5 at most this many.
SELECT event_id, item_id, event_type, status_from, status_to, payload_json, actor_user_id, source,
       created_at, space
FROM events
WHERE (?1 IS NULL OR item_id = ?1) AND (?2 IS NULL OR event_type = ?2)
  AND (?3 IS NULL OR actor_user_id = ?3) AND (?4 IS NULL OR created_at >= ?4)
ORDER BY created_at DESC, event_id DESC LIMIT ?5
