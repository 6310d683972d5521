-- The dead among messages ($1 bigint[]). Primary key.
SELECT message_id, queue, at, attempt_no, code, detail FROM consign.dead WHERE message_id = ANY ($1)
