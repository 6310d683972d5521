-- Adds an event. ?1 item, ?2 type, ?3 status_from, ?4 status_to, ?5 payload, ?6 actor, ?7 source,
-- ?8 space, ?9 now, ?10 words.
INSERT INTO events (item_id, event_type, status_from, status_to, payload_json, actor_user_id,
                    source, space, created_at, words)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
RETURNING event_id
