-- Groups in which messages wait although there is no head.
SELECT w.queue, w."group", min(w.message_id) FROM waiting AS w
WHERE NOT EXISTS (SELECT 1 FROM group_head AS t WHERE t.queue = w.queue AND t."group" = w."group")
GROUP BY w.queue, w."group"
