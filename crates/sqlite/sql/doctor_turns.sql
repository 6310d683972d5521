-- Every turn with the lane and group of its message, if that exists.
SELECT t.lane, t."group", t.message_id, m.lane IS t.lane AND m."group" IS t."group",
       EXISTS (SELECT 1 FROM waiting AS w WHERE w.lane = t.lane AND w."group" = t."group")
FROM turn AS t
LEFT JOIN message AS m ON m.id = t.message_id
