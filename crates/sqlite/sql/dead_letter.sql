-- One dead message in full. ?1 message.
SELECT message_id, queue, at, attempt_no, code, detail FROM dead WHERE message_id = ?1
