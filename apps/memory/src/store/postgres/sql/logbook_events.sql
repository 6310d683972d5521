-- Events that fit, newest first. $1 item, $2 type, $3 actor, $4 since: NULL fits everything; $5 how many.
SELECT event_id, item_id, event_type, status_from, status_to, payload_json, actor_user_id, source, created_at, space
    FROM logbook.events
    WHERE ($1::bigint IS NULL OR item_id = $1) AND ($2::text IS NULL OR event_type = $2)
        AND ($3::text IS NULL OR actor_user_id = $3) AND ($4::timestamptz IS NULL OR created_at >= $4)
    ORDER BY event_id DESC LIMIT $5
