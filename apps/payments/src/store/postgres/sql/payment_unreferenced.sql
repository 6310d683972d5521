-- Payments dispatched without a reference, except by an operator's resolution. $1 how many.
SELECT p.outbox_id FROM consign.unreferenced_dispatches() u (id) JOIN consign.payment p ON p.message_id = u.id
    ORDER BY p.message_id LIMIT $1
