-- Whether a message waits, and for whom. Uses waiting_message. ?1 message.
SELECT (SELECT t.message_id FROM group_head AS t WHERE t.queue = w.queue AND t."group" = w."group")
FROM waiting AS w WHERE w.message_id = ?1
