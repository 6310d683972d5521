-- The discarded among messages ($1 bigint[]). Primary key.
SELECT message_id FROM consign.discarded WHERE message_id = ANY ($1)
