-- Groups in which messages wait although it is nobody's turn.
SELECT w.lane, w."group", min(w.message_id) FROM waiting AS w
WHERE NOT EXISTS (SELECT 1 FROM turn AS t WHERE t.lane = w.lane AND t."group" = w."group")
GROUP BY w.lane, w."group"
