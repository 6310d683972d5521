-- How far a page looks: the first message beyond $2 others below the id $1, if there is one.
SELECT id FROM consign.message WHERE id < $1 ORDER BY id DESC OFFSET $2 LIMIT 1
