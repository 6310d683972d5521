-- Late successes by payment and arrival, with the state of these payments. $1 how many.
SELECT p.outbox_id, coalesce(w.message_state, 'delivered') AS message_state, l.message_id, l.token, l.fence, l.owner, l.outcome::text AS outcome,
       l.code, l.detail, l.result, l.at
    FROM consign.late_view l JOIN consign.payment p ON p.message_id = l.message_id
    LEFT JOIN consign.payment_undelivered w ON w.message_id = p.message_id
    WHERE l.outcome = 'delivered'
    ORDER BY l.message_id, l.at, l.fence LIMIT $1
