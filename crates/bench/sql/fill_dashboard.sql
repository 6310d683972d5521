-- Fills a store as one looks that has been at work for long: $1 messages over four queues, one in
-- twenty ready, $2 dead, a few held, the others delivered. Written as a settle would have left it.
-- What the counts are is told in docs/benchmarks.md.
CREATE PROCEDURE consign_bench.fill_dashboard(p_messages int, p_dead int)
    LANGUAGE plpgsql AS $$
DECLARE
    v_fence bigint := nextval('consign.lease_fence_seq');
    v_token uuid := gen_random_uuid();
    v_start timestamptz := consign.clock() - interval '1 day';
BEGIN
    CREATE TEMP TABLE fill AS
        SELECT n AS id, v_start + n * interval '1 millisecond' AS at,
               CASE WHEN n % 100 < 60 THEN 'mail' WHEN n % 100 < 85 THEN 'webhooks' WHEN n % 100 < 99 THEN 'billing' ELSE 'reports' END AS queue,
               CASE WHEN n % (p_messages / p_dead) = 7 THEN 'dead' WHEN n % 4000 = 11 THEN 'held'
                    WHEN n > p_messages - p_messages / 20 THEN 'ready' ELSE 'delivered' END AS state
            FROM generate_series(1, p_messages) n;
    INSERT INTO consign.message (id, created_at, queue, key, "group", payload, headers)
        SELECT id, at, queue, 'key-' || id, NULL, jsonb_build_object('number', id, 'text', repeat('x', 150)),
               CASE WHEN id % 4 = 0 THEN jsonb_build_object('correlation_id', 'case-' || id / 16) ELSE '{}' END
            FROM fill ORDER BY id;
    INSERT INTO consign.message_key (queue, key, message_id, at, digest)
        SELECT queue, key, id, created_at, consign.digest(payload) FROM consign.message WHERE key IS NOT NULL ORDER BY id;
    PERFORM setval('consign.message_id_seq', p_messages);
    INSERT INTO consign.attempt (message_id, fence, claimed_at, finished_at, attempt_no, outcome, token, owner, code)
        SELECT id, v_fence, at, at, 1, CASE state WHEN 'dead' THEN 'dead' ELSE 'delivered' END::consign.outcome, v_token, 'worker',
               CASE state WHEN 'dead' THEN 'code_' || id % 5 END
            FROM fill WHERE state IN ('dead', 'delivered') ORDER BY id;
    INSERT INTO consign.dead (message_id, queue, at, attempt_no, code)
        SELECT id, queue, at, 1, 'code_' || id % 5 FROM fill WHERE state = 'dead' ORDER BY id;
    INSERT INTO consign.held (message_id, queue, at, reason, tries, attempts)
        SELECT id, queue, at, 'by hand', 0, 0 FROM fill WHERE state = 'held' ORDER BY id;
    INSERT INTO consign.ready (queue, due_at, isolated, ids, tries, attempts)
        SELECT queue, min(at), false, array_agg(id ORDER BY id), array_fill(0, ARRAY[count(*)::int]), array_fill(0, ARRAY[count(*)::int])
            FROM (SELECT *, (row_number() OVER (PARTITION BY queue ORDER BY id) - 1) / 200 AS batch FROM fill WHERE state = 'ready') r
            GROUP BY queue, batch ORDER BY min(id);
    INSERT INTO consign.audit (at, actor, action, queue, message_id, reason)
        SELECT at, 'operator', CASE WHEN id % 3 = 0 THEN 'hold' ELSE 'requeue' END, queue, id, 'by hand'
            FROM fill WHERE id % 50 = 1 ORDER BY id;
    -- Statistics of a day by minute and of a week by hour.
    INSERT INTO consign.queue_stats (span, minute, queue, process, delivered, retried, dead, took_ms, ms50, ms250, due, oldest_ms)
        SELECT s.span, date_trunc(s.unit, now(), 'UTC') - n * make_interval(mins => s.span), q.queue, '', 300 * s.span, 9 * s.span,
               s.span, 15000 * s.span, 300 * s.span, 10 * s.span, 40, 900
            FROM (VALUES (1, 'minute', 1440), (60, 'hour', 168)) s (span, unit, points)
                CROSS JOIN (VALUES ('mail'), ('webhooks'), ('billing'), ('reports')) q (queue)
                CROSS JOIN LATERAL generate_series(1, s.points) n;
    DROP TABLE fill;
END $$;
