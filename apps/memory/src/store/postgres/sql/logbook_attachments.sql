-- Attachments that fit, newest first. $1 item, $2 kind, $3 uri: NULL fits everything; $4 how many.
SELECT a.*, logbook.item_space(i.scope_json, i.project_key) AS space
    FROM logbook.attachments a JOIN logbook.items i ON i.item_id = a.item_id
    WHERE ($1::bigint IS NULL OR a.item_id = $1) AND ($2::text IS NULL OR a.kind = $2)
        AND ($3::text IS NULL OR md5(a.uri) = md5($3) AND a.uri = $3)
    ORDER BY a.attachment_id DESC LIMIT $4
