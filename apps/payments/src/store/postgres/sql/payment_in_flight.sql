-- Leased payments, the earliest expiry first. $1 how many.
SELECT p.outbox_id, w.owner, w.fence, w.claimed_at, w.expires_at, w.expires_at <= consign.clock() AS is_expired, w.has_begun
    FROM consign.payment_undelivered w JOIN consign.payment p ON p.message_id = w.message_id
    WHERE w.message_state = 'leased'
    ORDER BY w.expires_at, w.fence, p.message_id LIMIT $1
