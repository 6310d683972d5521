-- How history grows: totals of queues, samples by the hour, and how the passes of the maintenance end.

-- What a range has of each queue.
CREATE FUNCTION consign.count_range(p_first bigint, p_until bigint)
    RETURNS TABLE (queue text, messages bigint, bytes bigint, first_id bigint)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
    AS $$
BEGIN
    RETURN QUERY SELECT m.queue, count(*), sum(pg_column_size(m.payload) + pg_column_size(m.headers)), min(m.id)
                     FROM consign.message m WHERE m.id >= p_first AND m.id < p_until GROUP BY m.queue;
END $$;
REVOKE ALL ON FUNCTION consign.count_range(bigint, bigint) FROM PUBLIC;

-- How many messages may leave now, by queue. Of a large range that was looked at, as many as then.
CREATE FUNCTION consign.may_leave() RETURNS TABLE (queue text, messages bigint)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    WITH now AS MATERIALIZED (SELECT n AS at, consign.cutoffs(n, false, true) AS cutoffs FROM consign.clock() n)
    SELECT e.key, sum(e.value::bigint)::bigint
        FROM now CROSS JOIN consign.range r
        CROSS JOIN LATERAL jsonb_each_text(CASE WHEN consign.is_looked_at(r.look_at, now.at) THEN r.may_leave
                                                ELSE consign.look_at_range(r, now.cutoffs) END) e
        GROUP BY e.key $$;
REVOKE ALL ON FUNCTION consign.may_leave() FROM PUBLIC;

-- What every queue holds and had. Its totals never go backwards: closed ranges were counted once, what has left is counted in
-- `departed`. Every message is in one place, so what is in no other is delivered. A caller locks consign.message first: a
-- range that is replaced meanwhile would be seen as it was, and its messages as they are.
CREATE FUNCTION consign.queue_totals()
    RETURNS TABLE (queue text, messages bigint, bytes bigint, oldest_id bigint, enqueued bigint, delivered bigint, dead bigint, departed bigint,
                   erased bigint, discarded bigint)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off
    AS $$
    WITH present AS (
        SELECT c.queue, sum(c.messages) AS messages, sum(c.bytes) AS bytes, min(c.first_id) AS first_id
            FROM (SELECT n.queue, n.messages, n.bytes, n.first_id FROM consign.range_count n
                  UNION ALL SELECT o.queue, o.messages, o.bytes, o.first_id
                      FROM consign.range r CROSS JOIN LATERAL consign.count_range(r.first, r.until) o WHERE NOT r.is_counted) c
            GROUP BY c.queue),
    unfinished AS (
        SELECT u.queue, sum(u.messages) AS messages
            FROM (SELECT w.queue, count(*) AS messages FROM consign.waiting w GROUP BY w.queue
                  UNION ALL SELECT r.queue, sum(cardinality(r.ids)) FROM consign.ready r GROUP BY r.queue
                  UNION ALL SELECT l.queue, sum(cardinality(l.ids)) FROM consign.lease l GROUP BY l.queue
                  UNION ALL SELECT h.queue, count(*) FROM consign.held h GROUP BY h.queue) u
            GROUP BY u.queue),
    dead AS (SELECT d.queue, count(*) AS messages FROM consign.dead d GROUP BY d.queue),
    discarded AS (SELECT x.queue, count(*) AS messages FROM consign.discarded x GROUP BY x.queue),
    erased AS (SELECT e.queue, count(*) AS messages FROM consign.erasure e GROUP BY e.queue)
    SELECT q.name, coalesce(p.messages, 0)::bigint, coalesce(p.bytes, 0)::bigint, p.first_id,
           (coalesce(p.messages, 0) + coalesce(t.messages, 0))::bigint,
           (coalesce(p.messages, 0) - coalesce(u.messages, 0) - coalesce(d.messages, 0) - coalesce(x.messages, 0)
                + coalesce(t.messages - t.dead - t.discarded, 0))::bigint,
           (coalesce(d.messages, 0) + coalesce(t.dead + t.revived, 0))::bigint, coalesce(t.messages, 0), coalesce(e.messages, 0),
           (coalesce(x.messages, 0) + coalesce(t.discarded, 0))::bigint
        FROM consign.queue q
        LEFT JOIN present p ON p.queue = q.name LEFT JOIN unfinished u ON u.queue = q.name LEFT JOIN dead d ON d.queue = q.name
        LEFT JOIN consign.departed t ON t.queue = q.name LEFT JOIN erased e ON e.queue = q.name
        LEFT JOIN discarded x ON x.queue = q.name
        WHERE q.policy IS NOT NULL $$;
REVOKE ALL ON FUNCTION consign.queue_totals() FROM PUBLIC;

-- How large the database is, and of it messages, attempts, late results and audit entries with their indexes.
CREATE FUNCTION consign.database_size(OUT bytes bigint, OUT history_bytes bigint)
    LANGUAGE sql SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT pg_database_size(current_database()),
           (SELECT coalesce(sum(pg_total_relation_size(i.relid)), 0)::bigint
                FROM unnest(ARRAY['consign.message', 'consign.attempt', 'consign.late', 'consign.audit']::regclass[]) p, pg_partition_tree(p) i) $$;
REVOKE ALL ON FUNCTION consign.database_size() FROM PUBLIC;

-- Records how a pass of the maintenance ended. Counting and sampling follow in transactions of their own: they read many
-- messages and may fail.
CREATE FUNCTION consign.record_pass(p_token uuid, p_end text) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_now timestamptz := consign.clock();
BEGIN
    PERFORM consign.require_read_committed();
    IF NOT consign.maintains(p_token) THEN
        RETURN 'lease_lost';
    END IF;
    IF NOT consign.is_name(p_end, 64) THEN
        RAISE EXCEPTION 'end: must be 1 to 64 bytes without control characters' USING ERRCODE = 'CN006';
    END IF;
    UPDATE consign.maintenance m SET
        passes = CASE WHEN (m.pass_end = 'done') = (p_end = 'done') THEN m.passes + 1 ELSE 1 END,
        pass_since = CASE WHEN (m.pass_end = 'done') = (p_end = 'done') THEN m.pass_since ELSE v_now END,
        pass_ends = CASE WHEN (m.pass_end = 'done') = (p_end = 'done') THEN m.pass_ends ELSE '{}' END,
        pass_at = v_now, pass_end = p_end;
    UPDATE consign.maintenance m SET pass_ends = m.pass_ends || p_end WHERE NOT p_end = ANY (m.pass_ends);
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION consign.record_pass(uuid, text) FROM PUBLIC;

-- Counts the messages of a closed range that was not counted yet, which every look at it does until then; returns whether
-- there was one.
CREATE FUNCTION consign.count_closed(p_token uuid, OUT refusal text, OUT counted boolean)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_range consign.range;
BEGIN
    PERFORM consign.require_read_committed();
    IF NOT consign.maintains(p_token) THEN
        refusal := 'lease_lost';
        RETURN;
    END IF;
    LOCK TABLE consign.message IN ACCESS SHARE MODE;
    SELECT * INTO v_range FROM consign.range r
        WHERE r.closed_at IS NOT NULL AND NOT r.is_counted ORDER BY r.first LIMIT 1 FOR UPDATE SKIP LOCKED;
    counted := FOUND;
    INSERT INTO consign.range_count (number, queue, messages, bytes, first_id)
        SELECT v_range.number, c.queue, c.messages, c.bytes, c.first_id FROM consign.count_range(v_range.first, v_range.until) c;
    UPDATE consign.range r SET is_counted = true WHERE r.number = v_range.number;
END $$;
REVOKE ALL ON FUNCTION consign.count_closed(uuid) FROM PUBLIC;

-- Keeps a sample of the history for this hour.
CREATE FUNCTION consign.sample_history(p_token uuid) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO'
    AS $$
DECLARE
    v_now  timestamptz := consign.clock();
    v_hour timestamptz := to_timestamp(floor(extract(epoch FROM v_now) / 3600) * 3600);
BEGIN
    PERFORM consign.require_read_committed();
    IF NOT consign.maintains(p_token) THEN
        RETURN 'lease_lost';
    END IF;
    LOCK TABLE consign.message IN ACCESS SHARE MODE;
    -- Samples of the future remain after the clock was set back.
    DELETE FROM consign.growth g WHERE g.hour < v_hour - interval '8 days' OR g.hour > v_hour;
    INSERT INTO consign.growth AS g (hour, sample)
        SELECT v_hour, jsonb_build_object('at', v_now, 'bytes', s.bytes, 'history_bytes', s.history_bytes, 'queues',
                   coalesce((SELECT jsonb_agg(jsonb_build_object('queue', t.queue, 'messages', t.messages, 'bytes', t.bytes,
                                 'oldest_id', t.oldest_id, 'oldest_at', (SELECT m.created_at FROM consign.message m WHERE m.id = t.oldest_id),
                                 'enqueued', t.enqueued, 'delivered', t.delivered, 'dead', t.dead, 'discarded', t.discarded, 'erased', t.erased, 'departed', t.departed)
                                 ORDER BY t.queue COLLATE "C")
                                 FROM (SELECT * FROM consign.queue_totals() ORDER BY messages DESC LIMIT 1000) t), '[]'))
            FROM consign.database_size() s
        ON CONFLICT (hour) DO UPDATE SET sample = excluded.sample;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION consign.sample_history(uuid) FROM PUBLIC;
