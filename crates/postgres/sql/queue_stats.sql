-- What was done in a queue ($1 text, NULL for all) in the last $2 minutes, in steps of $3 minutes. Sums that no
-- machine could do are cut, so that their sum cannot overflow.
SELECT p.queue, date_bin(make_interval(mins => $3::int), p.minute, 'epoch') AS minute,
       least(sum(p.delivered), 1e15)::bigint AS delivered, least(sum(p.retried), 1e15)::bigint AS retried,
       least(sum(p.dead), 1e15)::bigint AS dead, least(sum(p.uncertain), 1e15)::bigint AS uncertain,
       least(sum(p.took_ms), 1e15)::bigint AS took_ms
    FROM consign.queue_stats p
    WHERE p.minute > date_trunc('minute', consign.clock(), 'UTC') - make_interval(mins => $2::int)
        AND ($1::text IS NULL OR p.queue = $1)
    GROUP BY 1, 2
    ORDER BY p.queue COLLATE "C", 2
