-- Removes what late results say of the content, by primary key. ?1 JSON array of ids.
UPDATE late SET detail = NULL, result = NULL
WHERE message_id IN (SELECT value FROM json_each(?1)) AND (detail IS NOT NULL OR result IS NOT NULL)
