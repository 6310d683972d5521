-- Records a request of id $1 and fence $2. Returns how often it came, or no row under an older fence.
INSERT INTO consign_received AS r (webhook_id, fence, times, received_at)
    VALUES ($1, $2, 1, now())
    ON CONFLICT (webhook_id) DO UPDATE SET fence = excluded.fence, times = r.times + 1
        WHERE r.fence <= excluded.fence
    RETURNING times
