-- Payments with a late success. ?1 how many.
SELECT DISTINCT p.message_id, p.outbox_id
FROM late AS l JOIN payment AS p ON p.message_id = l.message_id
WHERE l.outcome = 'delivered'
ORDER BY p.message_id LIMIT ?1
