-- What the caller wants paid. ?1 message.
SELECT payload FROM message WHERE id = ?1
