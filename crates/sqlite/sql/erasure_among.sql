-- Which of these messages are erased, by primary key. ?1 JSON array of ids.
SELECT message_id FROM erasure WHERE message_id IN (SELECT value FROM json_each(?1))
