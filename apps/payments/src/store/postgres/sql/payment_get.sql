-- One payment ($1 uuid), where it is, and its payload.
SELECT p.*, coalesce(w.message_state, 'delivered') AS message_state, w.due_at, w.owner, w.expires_at, w.reason, m.payload->'payload' AS payload,
       (SELECT coalesce(max(a.attempt_no), 0) FROM consign.attempt a WHERE a.message_id = p.message_id) AS attempts
    FROM consign.payment p JOIN consign.message m ON m.id = p.message_id
    LEFT JOIN consign.payment_undelivered w ON w.message_id = p.message_id
    WHERE p.outbox_id = $1
