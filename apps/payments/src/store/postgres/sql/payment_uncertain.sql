-- Payments that failed or are held though the rail may have them. $1 how many.
SELECT p.*, w.message_state, w.due_at, w.owner, w.expires_at, w.reason, w.attempts, NULL::timestamptz AS erased_at
    FROM consign.payment_undelivered w JOIN consign.payment p ON p.message_id = w.message_id
    JOIN LATERAL (SELECT a.outcome FROM consign.attempt a WHERE a.message_id = w.message_id
                      AND (a.outcome <> 'expired' OR a.result @> '{"may_have_begun": true}')
                      ORDER BY a.attempt_no DESC LIMIT 1) a ON a.outcome IN ('uncertain', 'expired')
    WHERE w.message_state IN ('held', 'dead')
    ORDER BY p.message_id LIMIT $1
