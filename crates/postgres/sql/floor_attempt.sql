-- The same along attempts: the message of the first one beyond $2 others below the message $1.
SELECT message_id AS id FROM consign.attempt WHERE message_id < $1 ORDER BY message_id DESC OFFSET $2 LIMIT 1
