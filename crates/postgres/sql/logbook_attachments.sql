-- Attachments that fit, newest first. $1 item, $2 kind: NULL fits everything; $3 how many.
SELECT * FROM logbook.attachments
    WHERE ($1::bigint IS NULL OR item_id = $1) AND ($2::text IS NULL OR kind = $2)
    ORDER BY attachment_id DESC LIMIT $3
