-- One payment ($1 uuid), where it is, and its payload.
SELECT p.*, coalesce(w.message_state, 'delivered') AS message_state, w.due_at, w.owner, w.expires_at, w.reason, r.at AS erased_at,
       coalesce(m.payload->'payload', jsonb_strip_nulls(jsonb_build_object('amount_minor', e.amount_minor, 'currency_code', e.currency_code))) AS payload,
       (SELECT coalesce(max(a.attempt_no), 0) FROM consign.attempt a WHERE a.message_id = p.message_id) AS attempts
    FROM consign.payment p JOIN consign.message m ON m.id = p.message_id
    LEFT JOIN consign.payment_undelivered w ON w.message_id = p.message_id
    LEFT JOIN consign.erasure r ON r.message_id = p.message_id
    LEFT JOIN consign.payment_erased e ON e.message_id = p.message_id
    WHERE p.outbox_id = $1
