-- The erasures of messages ($1 bigint[]). Primary key.
SELECT message_id, at AS erased_at, actor AS erased_by, reason AS erased_reason, encode(digest, 'hex') AS erased_digest
    FROM consign.erasure WHERE message_id = ANY ($1)
