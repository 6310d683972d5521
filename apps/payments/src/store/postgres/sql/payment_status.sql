-- Counts of payments. $1 tenant or NULL.
SELECT count(*) FILTER (WHERE w.message_state IN ('waiting', 'ready', 'leased')) AS pending,
       count(*) FILTER (WHERE w.message_state = 'ready' AND w.due_at <= c.now) AS due,
       count(*) FILTER (WHERE w.message_state = 'ready' AND w.due_at > c.now) AS scheduled,
       count(*) FILTER (WHERE w.message_state = 'waiting') AS waiting,
       count(*) FILTER (WHERE w.message_state = 'leased') AS leased,
       count(*) FILTER (WHERE w.message_state = 'leased' AND w.expires_at <= c.now) AS expired,
       count(*) FILTER (WHERE w.message_state = 'held') AS held,
       count(*) FILTER (WHERE w.message_state = 'dead') AS failed,
       ARRAY[count(*) FILTER (WHERE w.message_state IN ('waiting', 'ready', 'leased') AND w.attempts = 1),
             count(*) FILTER (WHERE w.message_state IN ('waiting', 'ready', 'leased') AND w.attempts = 2),
             count(*) FILTER (WHERE w.message_state IN ('waiting', 'ready', 'leased') AND w.attempts = 3),
             count(*) FILTER (WHERE w.message_state IN ('waiting', 'ready', 'leased') AND w.attempts = 4),
             count(*) FILTER (WHERE w.message_state IN ('waiting', 'ready', 'leased') AND w.attempts >= 5)] AS histogram,
       min(p.created_at) FILTER (WHERE w.message_state IN ('waiting', 'ready', 'leased')) AS oldest_pending_at
    FROM (SELECT consign.clock() AS now) c, consign.payment_undelivered w JOIN consign.payment p ON p.message_id = w.message_id
    WHERE $1::uuid IS NULL OR p.tenant_id = $1
