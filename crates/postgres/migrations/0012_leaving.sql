-- Leaving: which messages history ends for, by the policies of their queues and by what apps still need.

-- Until when the events of messages must have happened for the messages to leave now, by queue; with the hook that knows
-- which of them are needed longer, and the time that it is asked about. p_by_size: the database is too large, and delivered
-- messages leave before their time. Without p_has_archive, queues that require an archive are left out.
CREATE FUNCTION consign.cutoffs(p_now timestamptz, p_by_size boolean, p_has_archive boolean) RETURNS jsonb
    -- Two of them are compared as text.
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO'
    AS $$
    SELECT coalesce(jsonb_object_agg(q.name, jsonb_strip_nulls(jsonb_build_object(
                   'keep', p_now - interval '1 millisecond' * CASE WHEN p_by_size THEN 0 ELSE 1 END * (q.policy->>'keep_ms')::bigint,
                   'keep_dead', p_now - interval '1 millisecond' * (q.policy->>'keep_dead_ms')::bigint,
                   'archive', q.policy->'archive',
                   'needed', q.hooks->>'needed',
                   'at', CASE WHEN q.hooks ? 'needed' THEN p_now END))), '{}')
        FROM consign.queue q
        WHERE num_nonnulls(q.policy->>'keep_ms', q.policy->>'keep_dead_ms') > 0
            AND (p_has_archive OR NOT (q.policy->>'archive')::boolean) $$;
REVOKE ALL ON FUNCTION consign.cutoffs(timestamptz, boolean, boolean) FROM PUBLIC;

-- The messages from p_first up to p_until that apps still need, by the hooks in p_cutoffs.
CREATE FUNCTION consign.needed(p_first bigint, p_until bigint, p_cutoffs jsonb) RETURNS SETOF bigint
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_queue record;
BEGIN
    FOR v_queue IN SELECT c.key AS name, c.value AS cutoff FROM jsonb_each(p_cutoffs) c WHERE c.value ? 'needed' LOOP
        RETURN QUERY EXECUTE format('SELECT %s($1, $2, $3, $4)', v_queue.cutoff->>'needed')
            USING v_queue.name, p_first, p_until, (v_queue.cutoff->>'at')::timestamptz;
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION consign.needed(bigint, bigint, jsonb) FROM PUBLIC;

-- The messages from p_first up to p_until that leave: finished, with their last event at or before the cutoff of their queue,
-- and not needed by an app. A dead head of an ordered group stays.
CREATE FUNCTION consign.leaving(p_first bigint, p_until bigint, p_cutoffs jsonb)
    RETURNS TABLE (id bigint, queue text, key text, died boolean, discarded boolean)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET jit = off
    AS $$
    SELECT f.id, f.queue, f.key, f.died, f.discarded
        FROM (SELECT m.id, m.queue, m.key, m."group", d.message_id IS NOT NULL AS died, x.message_id IS NOT NULL AS discarded,
                     greatest(l.at, d.at, x.at) AS at,
                     CASE WHEN d.message_id IS NOT NULL THEN c.keep_dead WHEN l.delivered OR x.message_id IS NOT NULL THEN c.keep END AS cutoff
                  FROM consign.message m
                  -- OFFSET: the times are cast once, not for each message.
                  JOIN (SELECT q.key AS queue, (q.value->>'keep')::timestamptz AS keep, (q.value->>'keep_dead')::timestamptz AS keep_dead
                            FROM jsonb_each(p_cutoffs) q OFFSET 0) c ON c.queue = m.queue
                  JOIN (SELECT a.message_id, max(a.finished_at) AS at, bool_or(a.outcome = 'delivered') AS delivered
                            FROM consign.attempt a WHERE a.message_id >= p_first AND a.message_id < p_until GROUP BY a.message_id
                        -- Cancelled before the first attempt.
                        UNION ALL SELECT n.message_id, n.at, false
                            FROM consign.discarded n WHERE n.message_id >= p_first AND n.message_id < p_until AND n.attempts = 0) l
                      ON l.message_id = m.id
                  LEFT JOIN consign.dead d ON d.message_id = m.id AND d.message_id >= p_first AND d.message_id < p_until
                  LEFT JOIN consign.discarded x ON x.message_id = m.id AND x.message_id >= p_first AND x.message_id < p_until
                  WHERE m.id >= p_first AND m.id < p_until) f
        WHERE f.at <= f.cutoff
            AND NOT EXISTS (SELECT FROM consign.late e WHERE e.message_id = f.id AND e.message_id >= p_first AND e.message_id < p_until
                                AND e.at > f.cutoff)
            AND NOT EXISTS (SELECT FROM consign.audit u WHERE u.message_id = f.id AND u.message_id >= p_first AND u.message_id < p_until
                                AND u.at > f.cutoff)
            AND NOT EXISTS (SELECT FROM consign.needed(p_first, p_until, p_cutoffs) n (id) WHERE n.id = f.id)
            AND NOT (f.died AND EXISTS (SELECT FROM consign.group_head t
                                            WHERE t.queue = f.queue AND t."group" = f."group" AND t.message_id = f.id)) $$;
REVOKE ALL ON FUNCTION consign.leaving(bigint, bigint, jsonb) FROM PUBLIC;

-- Whether a range is not looked at before its time. A time of the distant future remains after the clock was set back.
CREATE FUNCTION consign.is_looked_at(p_look_at timestamptz, p_now timestamptz) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    RETURN p_look_at > p_now AND p_look_at <= p_now + interval '1 day';
REVOKE ALL ON FUNCTION consign.is_looked_at(timestamptz, timestamptz) FROM PUBLIC;

-- What may leave from a range now: how many messages, by queue. Looked at by pages, as they are copied: a million
-- attempts at once do not fit into memory, and while they are written to temporary files, every commit waits for the disk.
-- A large range whose first message is younger than the times of all queues is not read: ids grow with time, unless the clock
-- was set back; then its messages leave later.
CREATE FUNCTION consign.look_at_range(p_range consign.range, p_cutoffs jsonb) RETURNS jsonb
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_nestloop = on SET jit = off
    AS $$
DECLARE
    v_first bigint := p_range.first;
    v_until bigint;
    v_found jsonb;
BEGIN
    IF p_cutoffs = '{}' OR (SELECT m.created_at > (SELECT max(greatest((q.value->>'keep')::timestamptz, (q.value->>'keep_dead')::timestamptz)) FROM jsonb_each(p_cutoffs) q)
                               FROM consign.message m WHERE m.id >= p_range.first AND m.id < p_range.until ORDER BY m.id LIMIT 1)
        AND EXISTS (SELECT FROM consign.message m WHERE m.id >= p_range.first AND m.id < p_range.until OFFSET 10000)
    THEN
        RETURN NULL;
    END IF;
    WHILE v_first < p_range.until LOOP
        v_until := coalesce((SELECT m.id FROM consign.message m WHERE m.id >= v_first AND m.id < p_range.until ORDER BY m.id OFFSET 10000 LIMIT 1), p_range.until);
        v_found := (SELECT jsonb_object_agg(c.queue, c.messages)
                        FROM (SELECT q.queue, sum(q.messages) AS messages
                                  FROM (SELECT e.key AS queue, e.value::bigint AS messages FROM jsonb_each_text(v_found) e
                                        UNION ALL SELECT o.queue, count(*) FROM consign.leaving(v_first, v_until, p_cutoffs) o GROUP BY o.queue) q
                                  GROUP BY q.queue) c);
        v_first := v_until;
    END LOOP;
    RETURN v_found;
END $$;
REVOKE ALL ON FUNCTION consign.look_at_range(consign.range, jsonb) FROM PUBLIC;
