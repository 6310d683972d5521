-- One dead message. ?1 message.
SELECT at, code, detail FROM dead WHERE message_id = ?1
