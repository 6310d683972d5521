-- One held message. ?1 message.
SELECT at, reason FROM held WHERE message_id = ?1
