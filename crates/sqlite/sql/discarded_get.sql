-- One discarded message. ?1 message.
SELECT at, actor, reason FROM discarded WHERE message_id = ?1
