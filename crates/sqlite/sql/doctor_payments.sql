-- Messages of the lane without their payment, and payments without their message.
SELECT m.id, 'message' FROM message AS m
LEFT JOIN payment AS p ON p.message_id = m.id AND p.outbox_id = m.key
WHERE m.lane = 'payments' AND p.message_id IS NULL
UNION ALL
SELECT p.message_id, 'payment' FROM payment AS p
WHERE NOT EXISTS (SELECT 1 FROM message AS m WHERE m.id = p.message_id AND m.lane = 'payments')
