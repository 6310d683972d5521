-- The erasure of one message, by primary key. ?1 message.
SELECT at, actor, reason, lower(hex(digest)) FROM erasure WHERE message_id = ?1
