-- The same along attempts: the message of the first one beyond ?2 others below the message ?1.
SELECT message_id FROM attempt WHERE message_id < ?1 ORDER BY message_id DESC LIMIT 1 OFFSET ?2
