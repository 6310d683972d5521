-- Messages of the queue without their payment, payments without their message that has not left either, payments
-- dispatched more than once.
SELECT 'message_without_payment', m.id FROM message AS m
LEFT JOIN payment AS p ON p.message_id = m.id AND p.outbox_id = m.key
WHERE m.queue = 'payments' AND p.message_id IS NULL
UNION ALL
SELECT 'payment_without_message', p.message_id FROM payment AS p
WHERE NOT EXISTS (SELECT 1 FROM message AS m WHERE m.id = p.message_id AND m.queue = 'payments')
  AND NOT EXISTS (SELECT 1 FROM former_key AS f WHERE f.queue = 'payments' AND f.key = p.outbox_id)
UNION ALL
SELECT 'payment_dispatched_twice', p.message_id FROM payment AS p
WHERE (SELECT count(*) FROM attempt AS a
       WHERE a.message_id = p.message_id AND a.outcome = 'delivered') > 1
