-- Heartbeats: which processes are alive, and what they did per minute (queue stats).

-- Records that a process is alive, the queues it works on, and what it did in them since its last heartbeat. Workers in
-- other languages may call it too; then the charts include their work.
--
-- A caller can make up names. So only the 1,000 processes seen last are kept, and in a minute at most 1,000 count in a
-- queue, and only in queues that the caller may work.
CREATE FUNCTION consign.heartbeat(p_process text, p_version text, p_running_for interval, p_queues text[],
                              p_delivered bigint[], p_retried bigint[], p_dead bigint[], p_uncertain bigint[],
                              p_took_ms bigint[])
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
    SELECT u.queue INTO v_wrong FROM unnest(p_queues, p_delivered, p_retried, p_dead, p_uncertain, p_took_ms)
            AS u (queue, delivered, retried, dead, uncertain, took_ms)
        WHERE greatest(u.delivered, u.retried, u.dead, u.uncertain, u.took_ms) >= v_most LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'queues: a count of queue % is 2^40 or more', quote_ident(v_wrong) USING ERRCODE = 'CN006';
    END IF;
    INSERT INTO consign.process AS p (name, version, started_at, seen_at, queues)
        VALUES (p_process, p_version, v_now - least(greatest(coalesce(p_running_for, '0'), '0'), '100 years'), v_now,
                (SELECT coalesce(array_agg(DISTINCT u ORDER BY u), '{}') FROM unnest(p_queues) u WHERE u ~ '^[a-z0-9][a-z0-9._-]{0,62}$'))
        ON CONFLICT (name) DO UPDATE SET version = excluded.version, started_at = excluded.started_at,
            seen_at = excluded.seen_at, queues = excluded.queues;
    INSERT INTO consign.queue_stats AS p (minute, queue, process, delivered, retried, dead, uncertain, took_ms)
        SELECT v_minute, u.queue, p_process, least(sum(greatest(u.delivered, 0)), v_most), least(sum(greatest(u.retried, 0)), v_most),
               least(sum(greatest(u.dead, 0)), v_most), least(sum(greatest(u.uncertain, 0)), v_most),
               least(sum(greatest(u.took_ms, 0)), v_most)
            FROM unnest(p_queues, p_delivered, p_retried, p_dead, p_uncertain, p_took_ms)
                AS u (queue, delivered, retried, dead, uncertain, took_ms)
            WHERE u.queue ~ '^[a-z0-9][a-z0-9._-]{0,62}$' AND consign.may_work(u.queue)
                AND (SELECT count(*) FROM (SELECT FROM consign.queue_stats o WHERE o.minute = v_minute AND o.queue = u.queue
                                               AND o.process <> p_process LIMIT 1000) others) < 1000
                AND (u.delivered > 0 OR u.retried > 0 OR u.dead > 0 OR u.uncertain > 0 OR u.took_ms > 0)
            GROUP BY u.queue
        ON CONFLICT (minute, queue, process) DO UPDATE SET delivered = least(p.delivered + excluded.delivered, v_most),
            retried = least(p.retried + excluded.retried, v_most), dead = least(p.dead + excluded.dead, v_most),
            uncertain = least(p.uncertain + excluded.uncertain, v_most), took_ms = least(p.took_ms + excluded.took_ms, v_most);
    DELETE FROM consign.queue_stats p WHERE p.ctid = ANY (ARRAY(
        SELECT o.ctid FROM consign.queue_stats o WHERE o.minute < v_now - interval '25 hours' LIMIT 1000 FOR UPDATE SKIP LOCKED));
    DELETE FROM consign.process p WHERE p.ctid = ANY (ARRAY(
        SELECT o.ctid FROM consign.process o
            WHERE o.seen_at < v_now - interval '25 hours'
                OR (o.seen_at, o.name COLLATE "C") <= (SELECT l.seen_at, l.name COLLATE "C" FROM consign.process l
                                                           ORDER BY l.seen_at DESC, l.name COLLATE "C" DESC OFFSET 1000 LIMIT 1)
            LIMIT 1000 FOR UPDATE OF o SKIP LOCKED));
END $$;
REVOKE ALL ON FUNCTION consign.heartbeat(text, text, interval, text[], bigint[], bigint[], bigint[], bigint[], bigint[]) FROM PUBLIC;
