-- Payments dispatched without a reference, except by a person's word. $1 how many.
SELECT p.outbox_id FROM consign.payment p JOIN consign.attempt a ON a.message_id = p.message_id
    WHERE a.outcome = 'delivered' AND a.code IS DISTINCT FROM 'resolved' AND coalesce(a.result->>'rail_reference' !~ '\S', true)
    ORDER BY p.message_id LIMIT $1
