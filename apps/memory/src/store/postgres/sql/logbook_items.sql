-- Items that fit, newest first. $1 type, $2 status, $3 owner: NULL fits everything; $4 how many.
SELECT * FROM logbook.items
    WHERE ($1::text IS NULL OR item_type = $1) AND ($2::text IS NULL OR status = $2) AND ($3::text IS NULL OR owner_user_id = $3)
    ORDER BY item_id DESC LIMIT $4
