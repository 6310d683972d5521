-- What was done in a queue ($1 text, NULL for all) in the last $2 minutes, in steps of $3 minutes, from stats of the span $4.
-- Sums that no machine could do are cut, so that their sum cannot overflow.
SELECT p.queue, date_bin(make_interval(mins => $3::int), p.minute, 'epoch') AS minute,
       least(sum(p.delivered), 1e15)::bigint AS delivered,
       least(sum(p.retried), 1e15)::bigint AS retried,
       least(sum(p.dead), 1e15)::bigint AS dead,
       least(sum(p.uncertain), 1e15)::bigint AS uncertain,
       least(sum(p.took_ms), 1e15)::bigint AS took_ms,
       ARRAY[least(sum(p.ms10), 1e15)::bigint,
             least(sum(p.ms25), 1e15)::bigint,
             least(sum(p.ms50), 1e15)::bigint,
             least(sum(p.ms100), 1e15)::bigint,
             least(sum(p.ms250), 1e15)::bigint,
             least(sum(p.ms500), 1e15)::bigint,
             least(sum(p.ms1000), 1e15)::bigint,
             least(sum(p.ms2500), 1e15)::bigint,
             least(sum(p.ms10000), 1e15)::bigint,
             least(sum(p.more), 1e15)::bigint] AS latency,
       coalesce(max(p.due), 0) AS due, coalesce(max(p.oldest_ms), 0) AS oldest_ms
    FROM consign.queue_stats p
    WHERE p.span = $4::smallint AND p.minute >= date_bin(make_interval(mins => $4::int),
              date_trunc('minute', consign.clock(), 'UTC') - make_interval(mins => $2::int - 1), 'epoch')
        AND ($1::text IS NULL OR p.queue = $1)
    GROUP BY 1, 2
    ORDER BY p.queue COLLATE "C", 2
