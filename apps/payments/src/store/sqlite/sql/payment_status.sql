-- Counts of payments. ?1 now, ?2 tenant or NULL.
SELECT count(*) FILTER (WHERE w.message_state IN ('waiting', 'ready', 'leased')),
       count(*) FILTER (WHERE w.message_state = 'ready' AND w.due_at <= ?1),
       count(*) FILTER (WHERE w.message_state = 'ready' AND w.due_at > ?1),
       count(*) FILTER (WHERE w.message_state = 'waiting'),
       count(*) FILTER (WHERE w.message_state = 'leased'),
       count(*) FILTER (WHERE w.message_state = 'leased' AND w.expires_at <= ?1),
       count(*) FILTER (WHERE w.message_state = 'held'),
       count(*) FILTER (WHERE w.message_state = 'dead'),
       json_array(
           count(*) FILTER (WHERE w.message_state IN ('waiting', 'ready', 'leased') AND w.attempts = 1),
           count(*) FILTER (WHERE w.message_state IN ('waiting', 'ready', 'leased') AND w.attempts = 2),
           count(*) FILTER (WHERE w.message_state IN ('waiting', 'ready', 'leased') AND w.attempts = 3),
           count(*) FILTER (WHERE w.message_state IN ('waiting', 'ready', 'leased') AND w.attempts = 4),
           count(*) FILTER (WHERE w.message_state IN ('waiting', 'ready', 'leased') AND w.attempts >= 5)),
       min(p.created_at) FILTER (WHERE w.message_state IN ('waiting', 'ready', 'leased'))
FROM payment_undelivered AS w JOIN payment AS p ON p.message_id = w.message_id
WHERE ?2 IS NULL OR p.tenant_id = ?2
