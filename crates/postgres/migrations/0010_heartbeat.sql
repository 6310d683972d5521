-- Heartbeats: which processes are alive, and what they did per minute and hour (queue stats).

-- Records that a process is alive, the queues it works on, and what it did in them since its last heartbeat. Workers in
-- other languages may call it too; then the charts include their work. p_latency: 10 numbers per queue, one queue after
-- the other: how many results took up to 10, 25, 50, 100, 250, 500, 1,000, 2,500, 10,000 ms, and longer.
--
-- A caller can make up names. So only the 1,000 processes seen last are kept, and in a minute at most 1,000 count in a
-- queue, and only in queues that the caller may work.
CREATE FUNCTION consign.heartbeat(p_process text, p_version text, p_running_for interval, p_queues text[],
                              p_delivered bigint[], p_retried bigint[], p_dead bigint[], p_uncertain bigint[],
                              p_took_ms bigint[], p_latency bigint[] DEFAULT '{}', p_breakers jsonb DEFAULT '[]',
                              p_is_last boolean DEFAULT false)
    RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_now    timestamptz := consign.clock();
    v_minute timestamptz := date_trunc('minute', v_now, 'UTC');
    -- Far above what a process can do in a minute, far below what can be added up.
    v_most   CONSTANT bigint := 1099511627776;
    v_wrong  text;
BEGIN
    IF NOT consign.is_name(p_process, 256) THEN
        RAISE EXCEPTION 'process: must be 1 to 256 bytes without control characters' USING ERRCODE = 'CN006';
    END IF;
    IF NOT consign.is_name(p_version, 100) THEN
        RAISE EXCEPTION 'version: must be 1 to 100 bytes without control characters' USING ERRCODE = 'CN006';
    END IF;
    IF cardinality(p_queues) > 1000 THEN
        RAISE EXCEPTION 'queues: % queues; maximum is 1000', cardinality(p_queues) USING ERRCODE = 'CN006';
    END IF;
    IF jsonb_typeof(p_breakers) <> 'array' OR jsonb_array_length(p_breakers) > 100 THEN
        RAISE EXCEPTION 'breakers: must be a list of at most 100' USING ERRCODE = 'CN006';
    END IF;
    SELECT u.queue INTO v_wrong FROM unnest(p_queues, p_delivered, p_retried, p_dead, p_uncertain, p_took_ms)
            AS u (queue, delivered, retried, dead, uncertain, took_ms)
        WHERE greatest(u.delivered, u.retried, u.dead, u.uncertain, u.took_ms) >= v_most LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'queues: a count of queue % is 2^40 or more', quote_ident(v_wrong) USING ERRCODE = 'CN006';
    END IF;
    IF v_most <= ANY (p_latency) THEN
        RAISE EXCEPTION 'latency: a number is 2^40 or more' USING ERRCODE = 'CN006';
    END IF;
    INSERT INTO consign.process AS p (name, version, started_at, seen_at, queues, breakers)
        VALUES (p_process, p_version, v_now - least(greatest(coalesce(p_running_for, '0'), '0'), '100 years'), v_now,
                (SELECT coalesce(array_agg(DISTINCT u ORDER BY u), '{}') FROM unnest(p_queues) u
                     WHERE u ~ '^[a-z0-9][a-z0-9._-]{0,62}$' AND NOT coalesce(p_is_last, false)),
                (SELECT coalesce(jsonb_agg(jsonb_build_object('queue', b.queue, 'destination', b.destination, 'state', b.state,
                            'since', v_now - make_interval(secs => least(greatest(b.lasts_ms, 0), 1e12) / 1000.0))
                            ORDER BY b.queue COLLATE "C", b.destination COLLATE "C"), '[]')
                     FROM jsonb_to_recordset(p_breakers) AS b (queue text, destination text, state text, lasts_ms bigint)
                     WHERE b.queue ~ '^[a-z0-9][a-z0-9._-]{0,62}$' AND b.state IN ('open', 'half_open')
                         AND consign.may_work(b.queue) AND consign.is_name(b.destination, 512)
                         AND NOT coalesce(p_is_last, false)))
        ON CONFLICT (name) DO UPDATE SET version = excluded.version, started_at = excluded.started_at,
            seen_at = excluded.seen_at, queues = excluded.queues, breakers = excluded.breakers;
    -- In the order of the rows, because processes share those of an hour.
    INSERT INTO consign.queue_stats AS p (span, minute, queue, process, delivered, retried, dead, uncertain, took_ms,
                                          ms10, ms25, ms50, ms100, ms250, ms500, ms1000, ms2500, ms10000, more)
        SELECT s.span, s.minute, t.queue, s.process, t.delivered, t.retried, t.dead, t.uncertain, t.took_ms,
               t.ms10, t.ms25, t.ms50, t.ms100, t.ms250, t.ms500, t.ms1000, t.ms2500, t.ms10000, t.more
        FROM (SELECT u.queue,
               least(sum(greatest(u.delivered, 0)), v_most) AS delivered,
               least(sum(greatest(u.retried, 0)), v_most) AS retried,
               least(sum(greatest(u.dead, 0)), v_most) AS dead,
               least(sum(greatest(u.uncertain, 0)), v_most) AS uncertain,
               least(sum(greatest(u.took_ms, 0)), v_most) AS took_ms,
               least(sum(greatest(p_latency[(u.place * 10 - 9)::int], 0)), v_most) AS ms10,
               least(sum(greatest(p_latency[(u.place * 10 - 8)::int], 0)), v_most) AS ms25,
               least(sum(greatest(p_latency[(u.place * 10 - 7)::int], 0)), v_most) AS ms50,
               least(sum(greatest(p_latency[(u.place * 10 - 6)::int], 0)), v_most) AS ms100,
               least(sum(greatest(p_latency[(u.place * 10 - 5)::int], 0)), v_most) AS ms250,
               least(sum(greatest(p_latency[(u.place * 10 - 4)::int], 0)), v_most) AS ms500,
               least(sum(greatest(p_latency[(u.place * 10 - 3)::int], 0)), v_most) AS ms1000,
               least(sum(greatest(p_latency[(u.place * 10 - 2)::int], 0)), v_most) AS ms2500,
               least(sum(greatest(p_latency[(u.place * 10 - 1)::int], 0)), v_most) AS ms10000,
               least(sum(greatest(p_latency[(u.place * 10 - 0)::int], 0)), v_most) AS more
            FROM unnest(p_queues, p_delivered, p_retried, p_dead, p_uncertain, p_took_ms)
                WITH ORDINALITY AS u (queue, delivered, retried, dead, uncertain, took_ms, place)
            WHERE u.queue ~ '^[a-z0-9][a-z0-9._-]{0,62}$' AND consign.may_work(u.queue)
                AND (SELECT count(*) FROM (SELECT FROM consign.queue_stats o
                                               WHERE o.span = 1 AND o.minute = v_minute AND o.queue = u.queue
                                                   AND o.process <> p_process LIMIT 1000) others) < 1000
                AND (u.delivered > 0 OR u.retried > 0 OR u.dead > 0 OR u.uncertain > 0 OR u.took_ms > 0
                     OR 0 < ANY (p_latency[(u.place * 10 - 9)::int:(u.place * 10)::int]))
            GROUP BY u.queue) t
            CROSS JOIN (VALUES (1, v_minute, p_process), (60, date_trunc('hour', v_now, 'UTC'), '')) s (span, minute, process)
        ORDER BY s.span, t.queue
        ON CONFLICT (span, minute, queue, process) DO UPDATE SET
            delivered = least(p.delivered + excluded.delivered, v_most),
            retried = least(p.retried + excluded.retried, v_most),
            dead = least(p.dead + excluded.dead, v_most),
            uncertain = least(p.uncertain + excluded.uncertain, v_most),
            took_ms = least(p.took_ms + excluded.took_ms, v_most),
            ms10 = least(p.ms10 + excluded.ms10, v_most),
            ms25 = least(p.ms25 + excluded.ms25, v_most),
            ms50 = least(p.ms50 + excluded.ms50, v_most),
            ms100 = least(p.ms100 + excluded.ms100, v_most),
            ms250 = least(p.ms250 + excluded.ms250, v_most),
            ms500 = least(p.ms500 + excluded.ms500, v_most),
            ms1000 = least(p.ms1000 + excluded.ms1000, v_most),
            ms2500 = least(p.ms2500 + excluded.ms2500, v_most),
            ms10000 = least(p.ms10000 + excluded.ms10000, v_most),
            more = least(p.more + excluded.more, v_most);
    DELETE FROM consign.queue_stats p WHERE p.ctid = ANY (
        ARRAY(SELECT o.ctid FROM consign.queue_stats o
                  WHERE o.span = 1 AND o.minute < v_now - interval '25 hours' LIMIT 1000 FOR UPDATE SKIP LOCKED)
        || ARRAY(SELECT o.ctid FROM consign.queue_stats o
                  WHERE o.span = 60 AND o.minute < v_now - interval '169 hours' LIMIT 1000 FOR UPDATE SKIP LOCKED));
    DELETE FROM consign.process p WHERE p.ctid = ANY (ARRAY(
        SELECT o.ctid FROM consign.process o
            WHERE o.seen_at < v_now - interval '25 hours'
                OR (o.seen_at, o.name COLLATE "C") <= (SELECT l.seen_at, l.name COLLATE "C" FROM consign.process l
                                                           ORDER BY l.seen_at DESC, l.name COLLATE "C" DESC OFFSET 1000 LIMIT 1)
            LIMIT 1000 FOR UPDATE OF o SKIP LOCKED));
END $$;
REVOKE ALL ON FUNCTION consign.heartbeat(text, text, interval, text[], bigint[], bigint[], bigint[], bigint[], bigint[], bigint[], jsonb, boolean) FROM PUBLIC;

-- Records what is due in every queue, once a minute however many processes call it: of the 1,000 queues with the most.
CREATE FUNCTION consign.sample_backlog() RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_now    timestamptz := consign.clock();
    v_minute timestamptz := date_trunc('minute', v_now, 'UTC');
BEGIN
    IF EXISTS (SELECT FROM consign.queue_stats WHERE span = 1 AND minute = v_minute AND process = '') THEN
        RETURN;
    END IF;
    INSERT INTO consign.queue_stats AS p (span, minute, queue, process, due, oldest_ms)
        SELECT s.span, s.minute, r.queue, '', r.due, floor(extract(epoch FROM v_now - r.oldest) * 1000)
            FROM (SELECT queue, sum(cardinality(ids)) AS due, min(due_at) AS oldest FROM consign.ready WHERE due_at <= v_now
                      GROUP BY queue ORDER BY due DESC, queue COLLATE "C" LIMIT 1000) r
                CROSS JOIN (VALUES (1, v_minute), (60, date_trunc('hour', v_now, 'UTC'))) s (span, minute)
            ORDER BY s.span, r.queue
        ON CONFLICT (span, minute, queue, process) DO UPDATE SET due = greatest(p.due, excluded.due),
            oldest_ms = greatest(p.oldest_ms, excluded.oldest_ms);
END $$;
REVOKE ALL ON FUNCTION consign.sample_backlog() FROM PUBLIC;

-- Records that an operator knows a problem, of a severity and until when, instead of what was recorded about it before.
-- p_queue: the queue it is about, for the audit. Acknowledgements that have ended are removed.
CREATE FUNCTION consign.acknowledge(p_problem text, p_severity text, p_queue text, p_for interval, p_actor text, p_reason text)
    RETURNS consign.acknowledgement
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_now    timestamptz := consign.clock();
    v_reason text := format('%s (problem %s)', p_reason, p_problem);
    v_row    consign.acknowledgement;
BEGIN
    PERFORM consign.require_reason(p_actor, p_reason);
    PERFORM consign.require_reason(p_actor, v_reason);
    IF NOT consign.is_name(p_problem, 512) THEN
        RAISE EXCEPTION 'problem: must be 1 to 512 bytes without control characters' USING ERRCODE = 'CN006';
    END IF;
    IF (p_severity IN ('info', 'low', 'medium', 'high', 'critical')) IS NOT TRUE THEN
        RAISE EXCEPTION 'severity %: must be info, low, medium, high or critical', quote_nullable(p_severity)
            USING ERRCODE = 'CN006';
    END IF;
    IF (p_for > '0' AND p_for <= '30 days') IS NOT TRUE THEN
        RAISE EXCEPTION 'for: must be from 1 ms to 30 days' USING ERRCODE = 'CN006';
    END IF;
    DELETE FROM consign.acknowledgement WHERE until <= v_now;
    INSERT INTO consign.acknowledgement AS k (problem, severity, at, until, actor, reason)
        VALUES (p_problem, p_severity, v_now, v_now + p_for, p_actor, p_reason)
        ON CONFLICT (problem) DO UPDATE SET severity = excluded.severity, at = excluded.at, until = excluded.until,
            actor = excluded.actor, reason = excluded.reason, login = excluded.login
        RETURNING k.* INTO v_row;
    INSERT INTO consign.audit (at, actor, action, queue, reason) VALUES (v_now, p_actor, 'acknowledge', p_queue, v_reason);
    RETURN v_row;
END $$;
REVOKE ALL ON FUNCTION consign.acknowledge(text, text, text, interval, text, text) FROM PUBLIC;

-- Ends an acknowledgement. False: there is none.
CREATE FUNCTION consign.reopen(p_problem text, p_actor text, p_reason text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_reason text := format('%s (problem %s)', p_reason, p_problem);
BEGIN
    PERFORM consign.require_reason(p_actor, p_reason);
    PERFORM consign.require_reason(p_actor, v_reason);
    DELETE FROM consign.acknowledgement WHERE problem = p_problem;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO consign.audit (at, actor, action, reason) VALUES (consign.clock(), p_actor, 'reopen', v_reason);
    RETURN true;
END $$;
REVOKE ALL ON FUNCTION consign.reopen(text, text, text) FROM PUBLIC;
