-- How far a page looks: the first message beyond ?2 others below the id ?1.
SELECT id FROM message WHERE id < ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2
