-- Payments dispatched without a reference, except by an operator's resolution. ?1 how many.
SELECT p.outbox_id
FROM payment AS p JOIN attempt AS a ON a.message_id = p.message_id
WHERE a.outcome = 'delivered' AND a.code IS NOT 'resolved'
  AND (a.result IS NULL OR trim(coalesce(a.result ->> '$.rail_reference', '')) = '')
ORDER BY p.message_id LIMIT ?1
