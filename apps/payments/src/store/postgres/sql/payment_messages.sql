-- The messages of payments ($1 uuid[]), in order; NULL where there is no such payment.
SELECT p.message_id FROM unnest($1::uuid[]) WITH ORDINALITY AS u (id, ord)
    LEFT JOIN consign.payment p ON p.outbox_id = u.id ORDER BY u.ord
