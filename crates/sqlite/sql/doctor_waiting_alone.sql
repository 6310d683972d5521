-- Groups in which messages wait although it is nobody's turn.
SELECT w.queue, w."group", min(w.message_id) FROM waiting AS w
WHERE NOT EXISTS (SELECT 1 FROM turn AS t WHERE t.queue = w.queue AND t."group" = w."group")
GROUP BY w.queue, w."group"
