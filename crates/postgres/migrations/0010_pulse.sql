-- Signs of life: which processes there are, and what they have done lately. Kept for a day, for those
-- who watch; nothing that is delivered depends on them.

CREATE TABLE consign.process (
    name       text PRIMARY KEY,
    version    text NOT NULL,
    started_at timestamptz NOT NULL,
    seen_at    timestamptz NOT NULL,
    queues      text[] NOT NULL
);

-- A row per process, so that processes never wait for each other.
CREATE TABLE consign.pulse (
    minute    timestamptz NOT NULL,
    queue      text NOT NULL,
    process   text NOT NULL,
    delivered bigint NOT NULL,
    retried   bigint NOT NULL,
    dead      bigint NOT NULL,
    uncertain bigint NOT NULL,
    took_ms   bigint NOT NULL,
    PRIMARY KEY (minute, queue, process)
);

-- A process tells of itself: the queues it works on, with what it did in them since it did so last.
-- Workers in other languages may do so too; then their work shows in the charts.
--
-- Whoever may call it can make up names. So only the 1,000 processes that were heard of last are kept, and in a minute
-- no more than 1,000 count in a queue, and only in queues that the caller may work.
CREATE FUNCTION consign.pulse(p_process text, p_version text, p_running_for interval, p_queues text[],
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
BEGIN
    IF NOT consign.is_name(p_process, 256) THEN
        RAISE EXCEPTION 'process: must be 1 to 256 bytes without control characters' USING ERRCODE = 'CN006';
    END IF;
    IF NOT consign.is_name(p_version, 100) THEN
        RAISE EXCEPTION 'version: must be 1 to 100 bytes without control characters' USING ERRCODE = 'CN006';
    END IF;
    IF cardinality(p_queues) > 1000 OR EXISTS (
        SELECT FROM unnest(p_delivered || p_retried || p_dead || p_uncertain || p_took_ms) n WHERE n >= v_most)
    THEN
        RAISE EXCEPTION 'queues: holds a number that cannot be true, or more than 1000 queues' USING ERRCODE = 'CN006';
    END IF;
    INSERT INTO consign.process AS p (name, version, started_at, seen_at, queues)
        VALUES (p_process, p_version, v_now - least(greatest(coalesce(p_running_for, '0'), '0'), '100 years'), v_now,
                (SELECT coalesce(array_agg(DISTINCT u ORDER BY u), '{}') FROM unnest(p_queues) u WHERE u ~ '^[a-z0-9][a-z0-9._-]{0,62}$'))
        ON CONFLICT (name) DO UPDATE SET version = excluded.version, started_at = excluded.started_at,
            seen_at = excluded.seen_at, queues = excluded.queues;
    INSERT INTO consign.pulse AS p (minute, queue, process, delivered, retried, dead, uncertain, took_ms)
        SELECT v_minute, u.queue, p_process, least(sum(greatest(u.delivered, 0)), v_most), least(sum(greatest(u.retried, 0)), v_most),
               least(sum(greatest(u.dead, 0)), v_most), least(sum(greatest(u.uncertain, 0)), v_most),
               least(sum(greatest(u.took_ms, 0)), v_most)
            FROM unnest(p_queues, p_delivered, p_retried, p_dead, p_uncertain, p_took_ms)
                AS u (queue, delivered, retried, dead, uncertain, took_ms)
            WHERE u.queue ~ '^[a-z0-9][a-z0-9._-]{0,62}$' AND consign.may_work(u.queue)
                AND (SELECT count(*) FROM (SELECT FROM consign.pulse o WHERE o.minute = v_minute AND o.queue = u.queue
                                               AND o.process <> p_process LIMIT 1000) others) < 1000
                AND (u.delivered > 0 OR u.retried > 0 OR u.dead > 0 OR u.uncertain > 0 OR u.took_ms > 0)
            GROUP BY u.queue
        ON CONFLICT (minute, queue, process) DO UPDATE SET delivered = least(p.delivered + excluded.delivered, v_most),
            retried = least(p.retried + excluded.retried, v_most), dead = least(p.dead + excluded.dead, v_most),
            uncertain = least(p.uncertain + excluded.uncertain, v_most), took_ms = least(p.took_ms + excluded.took_ms, v_most);
    DELETE FROM consign.pulse p WHERE p.ctid = ANY (ARRAY(
        SELECT o.ctid FROM consign.pulse o WHERE o.minute < v_now - interval '25 hours' LIMIT 1000 FOR UPDATE SKIP LOCKED));
    DELETE FROM consign.process p WHERE p.ctid = ANY (ARRAY(
        SELECT o.ctid FROM consign.process o
            WHERE o.seen_at < v_now - interval '25 hours'
                OR (o.seen_at, o.name COLLATE "C") <= (SELECT l.seen_at, l.name COLLATE "C" FROM consign.process l
                                                           ORDER BY l.seen_at DESC, l.name COLLATE "C" DESC OFFSET 1000 LIMIT 1)
            LIMIT 1000 FOR UPDATE OF o SKIP LOCKED));
END $$;
REVOKE ALL ON FUNCTION consign.pulse(text, text, interval, text[], bigint[], bigint[], bigint[], bigint[], bigint[]) FROM PUBLIC;

-- Records that somebody looks at a message's payload, and shows it. No row: there is no such message.
CREATE FUNCTION consign.reveal(p_id bigint, p_actor text, p_reason text) RETURNS SETOF consign.message
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    PERFORM consign.require_reason(p_actor, p_reason);
    PERFORM consign.record_action(p_id, 'reveal', p_actor, p_reason, consign.clock());
    RETURN QUERY SELECT m.* FROM consign.message m WHERE m.id = p_id;
END $$;
REVOKE ALL ON FUNCTION consign.reveal(bigint, text, text) FROM PUBLIC;

GRANT EXECUTE ON FUNCTION
    consign.pulse(text, text, interval, text[], bigint[], bigint[], bigint[], bigint[], bigint[])
    TO consign_worker, consign_operator;
GRANT EXECUTE ON FUNCTION consign.reveal(bigint, text, text) TO consign_operator;
GRANT SELECT ON consign.process, consign.pulse TO consign_auditor, consign_operator;
