-- The backend a row of the outbox is meant for. ?1 message.
SELECT headers ->> '$.backend' FROM message WHERE id = ?1
