-- Schedules: messages enqueued at the ticks of a cron expression. The expression is evaluated by the process that takes a
-- tick; the functions take what it computed from the schedule as it still is.

-- A schedule, locked.
CREATE FUNCTION consign.known_schedule(p_name text, p_actor text, p_reason text) RETURNS consign.schedule
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_schedule consign.schedule;
BEGIN
    PERFORM consign.require_read_committed();
    PERFORM consign.require_reason(p_actor, p_reason);
    SELECT * INTO v_schedule FROM consign.schedule s WHERE s.name = p_name FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'schedule % does not exist', quote_nullable(p_name)
            USING ERRCODE = 'CN014', DETAIL = jsonb_build_object('name', p_name)::text;
    END IF;
    RETURN v_schedule;
END $$;
REVOKE ALL ON FUNCTION consign.known_schedule(text, text, text) FROM PUBLIC;

-- Records an action on a schedule in the audit. The reason must leave room for the schedule's name.
CREATE FUNCTION consign.record_schedule(p_schedule consign.schedule, p_action text, p_actor text, p_reason text, p_now timestamptz,
                                        p_message_id bigint DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    PERFORM consign.require_reason(p_actor, p_reason);
    IF octet_length(p_reason) > 4000 THEN
        RAISE EXCEPTION 'reason: must be at most 4000 bytes for a schedule' USING ERRCODE = 'CN006';
    END IF;
    INSERT INTO consign.audit (at, actor, action, queue, message_id, reason)
        VALUES (p_now, p_actor, p_action, p_schedule.queue, coalesce(p_message_id, 0), format('schedule %s: %s', p_schedule.name, p_reason));
END $$;
REVOKE ALL ON FUNCTION consign.record_schedule(consign.schedule, text, text, text, timestamptz, bigint) FROM PUBLIC;

-- Creates a schedule or changes one, with the next tick as the caller computed it; a schedule that keeps its expression and
-- time zone keeps its next tick. Called by the command line and the HTTP API, which check the expression.
CREATE FUNCTION consign.put_schedule(p_name text, p_queue text, p_cron text, p_time_zone text, p_payload jsonb, p_headers jsonb,
                                     p_group text, p_missed text, p_missed_max int, p_next_at timestamptz, p_actor text, p_reason text)
    RETURNS consign.schedule
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_queue    consign.queue;
    v_now      timestamptz;
    v_schedule consign.schedule;
BEGIN
    PERFORM consign.require_read_committed();
    -- Others no process could read.
    IF (p_next_at >= '0001-01-01 00:00+00' AND p_next_at < '9999-12-30 00:00+00') IS NOT TRUE THEN
        RAISE EXCEPTION 'next_at: is %; must be a time of the years 1 to 9999', coalesce(p_next_at::text, 'null') USING ERRCODE = 'CN006';
    END IF;
    v_queue := consign.known_queue(p_queue);
    -- What the messages would be rejected for. No message has the id 0.
    IF v_queue.hooks ? 'check' THEN
        EXECUTE format('SELECT %s($1, $2, $3, $4, $5, $6)', v_queue.hooks->>'check')
            USING p_queue, ARRAY[0::bigint], ARRAY[NULL::text], ARRAY[p_group], ARRAY[p_payload], ARRAY[p_headers];
    END IF;
    PERFORM consign.check_messages(v_queue, ARRAY[p_payload], NULL, ARRAY[p_group], ARRAY[p_headers], NULL);
    v_now := consign.clock();
    INSERT INTO consign.schedule AS s (name, queue, cron, time_zone, payload, headers, "group", missed, missed_max,
                                       created_at, updated_at, next_at)
        VALUES (p_name, p_queue, p_cron, p_time_zone, p_payload, p_headers, p_group, p_missed, p_missed_max, v_now, v_now, p_next_at)
        ON CONFLICT (name) DO UPDATE SET
            queue = excluded.queue, payload = excluded.payload, headers = excluded.headers, "group" = excluded."group",
            missed = excluded.missed, missed_max = excluded.missed_max, updated_at = excluded.updated_at,
            next_at = CASE WHEN s.cron = excluded.cron AND s.time_zone = excluded.time_zone THEN s.next_at ELSE excluded.next_at END,
            cron = excluded.cron, time_zone = excluded.time_zone
        RETURNING s.* INTO v_schedule;
    PERFORM consign.record_schedule(v_schedule, 'put_schedule', p_actor, p_reason, v_now);
    RETURN v_schedule;
END $$;
REVOKE ALL ON FUNCTION consign.put_schedule(text, text, text, text, jsonb, jsonb, text, text, int, timestamptz, text, text) FROM PUBLIC;

-- Removes a schedule; its messages stay.
CREATE FUNCTION consign.remove_schedule(p_name text, p_actor text, p_reason text) RETURNS consign.schedule
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_schedule consign.schedule := consign.known_schedule(p_name, p_actor, p_reason);
BEGIN
    DELETE FROM consign.schedule s WHERE s.name = p_name;
    PERFORM consign.record_schedule(v_schedule, 'remove_schedule', p_actor, p_reason, consign.clock());
    RETURN v_schedule;
END $$;
REVOKE ALL ON FUNCTION consign.remove_schedule(text, text, text) FROM PUBLIC;

-- Stops the ticks of a schedule; a second pause keeps the first time.
CREATE FUNCTION consign.pause_schedule(p_name text, p_actor text, p_reason text) RETURNS consign.schedule
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_schedule consign.schedule := consign.known_schedule(p_name, p_actor, p_reason);
    v_now      timestamptz := consign.clock();
BEGIN
    UPDATE consign.schedule s SET paused_at = coalesce(s.paused_at, v_now), updated_at = v_now WHERE s.name = p_name
        RETURNING s.* INTO v_schedule;
    PERFORM consign.record_schedule(v_schedule, 'pause_schedule', p_actor, p_reason, v_now);
    RETURN v_schedule;
END $$;
REVOKE ALL ON FUNCTION consign.pause_schedule(text, text, text) FROM PUBLIC;

-- Resumes the ticks of a schedule; those that passed meanwhile are missed.
CREATE FUNCTION consign.resume_schedule(p_name text, p_actor text, p_reason text) RETURNS consign.schedule
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_schedule consign.schedule := consign.known_schedule(p_name, p_actor, p_reason);
    v_now      timestamptz := consign.clock();
BEGIN
    UPDATE consign.schedule s SET paused_at = NULL, updated_at = v_now WHERE s.name = p_name RETURNING s.* INTO v_schedule;
    PERFORM consign.record_schedule(v_schedule, 'resume_schedule', p_actor, p_reason, v_now);
    RETURN v_schedule;
END $$;
REVOKE ALL ON FUNCTION consign.resume_schedule(text, text, text) FROM PUBLIC;

-- Enqueues the message of a schedule now, paused or not. Its ticks stay as they are.
CREATE FUNCTION consign.run_schedule(p_name text, p_actor text, p_reason text) RETURNS consign.schedule
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_schedule consign.schedule := consign.known_schedule(p_name, p_actor, p_reason);
    v_now      timestamptz := consign.clock();
    v_id       bigint;
BEGIN
    v_id := consign.enqueue(v_schedule.queue, v_schedule.payload, NULL, v_schedule."group",
                            v_schedule.headers || jsonb_build_object('consign_schedule', p_name));
    UPDATE consign.schedule s SET last_at = v_now, last_message_id = v_id WHERE s.name = p_name RETURNING s.* INTO v_schedule;
    PERFORM consign.record_schedule(v_schedule, 'run_schedule', p_actor, p_reason, v_now, v_id);
    RETURN v_schedule;
END $$;
REVOKE ALL ON FUNCTION consign.run_schedule(text, text, text) FROM PUBLIC;

-- Enqueues the messages of due ticks and moves the next tick on. No row, and nothing is written, unless the schedule has the
-- next tick, the expression and the time zone that the caller computed from, is not paused, and every tick is due: of
-- many processes with the same ticks one enqueues them. A schedule that another transaction has locked is not waited for.
--
-- p_stands_for: how many missed ticks each message stands for beside its own. p_missed: how many ticks of the step were
-- missed, and p_dropped how many of those get no message of their own.
CREATE FUNCTION consign.tick(p_name text, p_cron text, p_time_zone text, p_from timestamptz, p_ticks timestamptz[],
                             p_stands_for bigint[], p_missed bigint, p_dropped bigint, p_next_at timestamptz)
    RETURNS SETOF consign.schedule
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_count    int := coalesce(cardinality(p_ticks), 0);
    v_last     timestamptz := coalesce(p_ticks[v_count], p_from);
    v_now      timestamptz;
    v_schedule consign.schedule;
    v_id       bigint;
BEGIN
    PERFORM consign.require_read_committed();
    IF (p_next_at < '9999-12-30 00:00+00') IS NOT TRUE THEN
        RAISE EXCEPTION 'next_at: is %; must be a time of the years 1 to 9999', coalesce(p_next_at::text, 'null') USING ERRCODE = 'CN006';
    END IF;
    IF (p_missed >= 0 AND p_dropped >= 0) IS NOT TRUE OR cardinality(p_stands_for) <> v_count OR 0 > ANY (p_stands_for) THEN
        RAISE EXCEPTION 'missed, dropped, stands_for: must be 0 or more, stands_for NULL or one number for each tick' USING ERRCODE = 'CN006';
    END IF;
    IF v_count > 100 OR coalesce(p_next_at <= v_last OR p_ticks[1] < p_from, false) OR array_position(p_ticks, NULL) IS NOT NULL
        OR p_ticks <> ARRAY(SELECT DISTINCT u FROM unnest(p_ticks) u ORDER BY u)
    THEN
        RAISE EXCEPTION 'ticks: must be at most 100, in their order, from the next tick of the schedule to before the one after them'
            USING ERRCODE = 'CN006';
    END IF;
    SELECT * INTO v_schedule FROM consign.schedule s
        WHERE s.name = p_name AND s.paused_at IS NULL AND s.next_at = p_from AND s.cron = p_cron AND s.time_zone = p_time_zone
        FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    v_now := consign.clock();
    IF v_last > v_now THEN
        RETURN;
    END IF;
    IF v_count > 0 THEN
        SELECT max(e.id) INTO v_id FROM consign.enqueue_many(
            v_schedule.queue, array_fill(v_schedule.payload, ARRAY[v_count]), NULL, array_fill(v_schedule."group", ARRAY[v_count]),
            ARRAY(SELECT v_schedule.headers || jsonb_strip_nulls(jsonb_build_object(
                      'consign_schedule', p_name, 'consign_tick', to_char(t.at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
                      'consign_missed', nullif(t.stands_for, 0)))
                      FROM unnest(p_ticks, p_stands_for) WITH ORDINALITY AS t (at, stands_for, ord) ORDER BY t.ord)) e;
    END IF;
    IF p_missed > 0 THEN
        INSERT INTO consign.audit (at, actor, action, queue, reason)
            VALUES (v_now, 'schedules', 'missed_ticks', v_schedule.queue,
                    format('schedule %s: %s missed from %s on, %s of them without a message of their own (policy %s)', p_name, p_missed,
                           to_char(p_from AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), p_dropped, v_schedule.missed));
    END IF;
    RETURN QUERY UPDATE consign.schedule s SET
            next_at = p_next_at,
            last_tick = CASE WHEN v_count > 0 THEN v_last ELSE s.last_tick END,
            last_at = CASE WHEN v_count > 0 THEN v_now ELSE s.last_at END,
            last_message_id = coalesce(v_id, s.last_message_id),
            ticks = s.ticks + v_count,
            dropped = s.dropped + p_dropped
        WHERE s.name = p_name
        RETURNING s.*;
END $$;
REVOKE ALL ON FUNCTION consign.tick(text, text, text, timestamptz, timestamptz[], bigint[], bigint, bigint, timestamptz) FROM PUBLIC;
