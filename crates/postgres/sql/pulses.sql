SELECT p.lane, date_bin(make_interval(mins => $3::int), p.minute, 'epoch') AS minute,
       sum(p.delivered)::bigint AS delivered, sum(p.retried)::bigint AS retried, sum(p.dead)::bigint AS dead,
       sum(p.uncertain)::bigint AS uncertain, sum(p.took_ms)::bigint AS took_ms
    FROM consign.pulse p
    WHERE p.minute > date_trunc('minute', consign.clock(), 'UTC') - make_interval(mins => $2::int)
        AND ($1::text IS NULL OR p.lane = $1)
    GROUP BY 1, 2
    ORDER BY p.lane COLLATE "C", 2
