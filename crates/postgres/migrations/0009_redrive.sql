-- Redrives: moving messages by filter, at a rate.

-- Records an action on a redrive in the audit. The reason must leave room for the redrive's number.
CREATE FUNCTION consign.record_redrive(p_redrive consign.redrive, p_action text, p_actor text, p_reason text, p_now timestamptz)
    RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    PERFORM consign.require_reason(p_actor, p_reason);
    IF octet_length(p_reason) > 4000 THEN
        RAISE EXCEPTION 'reason: of a redrive must be at most 4000 bytes' USING ERRCODE = 'CN006';
    END IF;
    INSERT INTO consign.audit (at, actor, action, queue, reason)
        VALUES (p_now, p_actor, p_action, p_redrive.queue, format('redrive %s: %s', p_redrive.id, p_reason));
END $$;
REVOKE ALL ON FUNCTION consign.record_redrive(consign.redrive, text, text, text, timestamptz) FROM PUBLIC;

-- Starts to move messages; nothing is moved yet. p_action: `requeue` or `discard`, the dead of a queue and a code, each if
-- given; `cancel`, the ready and waiting of a queue.
CREATE FUNCTION consign.start_redrive(p_actor text, p_reason text, p_queue text DEFAULT NULL, p_code text DEFAULT NULL,
                                      p_rate_per_second bigint DEFAULT NULL, p_at_most bigint DEFAULT NULL,
                                      p_action text DEFAULT 'requeue')
    RETURNS consign.redrive
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_now     timestamptz := consign.clock();
    v_redrive consign.redrive;
    v_hooks   jsonb;
BEGIN
    PERFORM consign.require_read_committed();
    PERFORM consign.require_reason(p_actor, p_reason);
    IF (p_action IN ('requeue', 'discard', 'cancel')) IS NOT TRUE THEN
        RAISE EXCEPTION 'action: must be requeue, discard or cancel' USING ERRCODE = 'CN006';
    END IF;
    IF p_action = 'cancel' AND (p_queue IS NULL OR p_code IS NOT NULL) THEN
        RAISE EXCEPTION 'queue: messages are cancelled in one queue at a time, which must be given; a code must not' USING ERRCODE = 'CN006';
    END IF;
    IF octet_length(p_code) > 128 THEN
        RAISE EXCEPTION 'code: must be at most 128 bytes' USING ERRCODE = 'CN006';
    END IF;
    IF p_rate_per_second NOT BETWEEN 1 AND 4294967295 THEN
        RAISE EXCEPTION 'rate_per_second: must be at least 1, or absent for no limit' USING ERRCODE = 'CN006';
    END IF;
    IF p_at_most < 1 THEN
        RAISE EXCEPTION 'limit: must be at least 1, or absent for all' USING ERRCODE = 'CN006';
    END IF;
    IF p_queue IS NOT NULL THEN
        v_hooks := (consign.known_queue(p_queue)).hooks;
        IF p_action <> 'requeue' AND v_hooks <> '{}' AND NOT v_hooks ? 'discarded' THEN
            RAISE EXCEPTION 'queue %: belongs to an app that has no such end for its messages; use the commands of the app', p_queue
                USING ERRCODE = 'CN006';
        END IF;
    END IF;
    INSERT INTO consign.redrive (action, state, queue, code, rate_per_second, at_most, total, actor, reason,
                                 started_at, updated_at, paced_at)
        SELECT p_action, 'running', p_queue, p_code, p_rate_per_second, p_at_most,
               CASE p_action
                   WHEN 'cancel' THEN (SELECT coalesce(sum(cardinality(r.ids)), 0) FROM consign.ready r WHERE r.queue = p_queue)
                       + (SELECT count(*) FROM consign.waiting w WHERE w.queue = p_queue)
                   ELSE (SELECT count(*) FROM consign.dead d WHERE (p_queue IS NULL OR d.queue = p_queue) AND (p_code IS NULL OR d.code = p_code)) END,
               p_actor, p_reason, v_now, v_now, v_now
        RETURNING * INTO v_redrive;
    PERFORM consign.record_redrive(v_redrive, 'start_redrive', p_actor, p_reason, v_now);
    RETURN v_redrive;
END $$;
REVOKE ALL ON FUNCTION consign.start_redrive(text, text, text, text, bigint, bigint, text) FROM PUBLIC;

-- The messages that a redrive takes next, by ascending id.
CREATE FUNCTION consign.redrive_next(p_redrive consign.redrive, p_count bigint) RETURNS bigint[]
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_after bigint := coalesce(p_redrive.cursor, -9223372036854775808);
BEGIN
    IF p_redrive.action = 'cancel' THEN
        RETURN ARRAY(SELECT m.id
            FROM (SELECT u AS id FROM consign.ready r, unnest(r.ids) u WHERE r.queue = p_redrive.queue AND u > v_after
                  UNION ALL SELECT w.message_id FROM consign.waiting w WHERE w.queue = p_redrive.queue AND w.message_id > v_after) o
            JOIN consign.message m ON m.id = o.id
            WHERE m.created_at <= p_redrive.started_at ORDER BY m.id LIMIT p_count);
    END IF;
    RETURN ARRAY(SELECT d.message_id FROM consign.dead d
        WHERE d.message_id > v_after AND d.at <= p_redrive.started_at
            AND (p_redrive.queue IS NULL OR d.queue = p_redrive.queue) AND (p_redrive.code IS NULL OR d.code = p_redrive.code)
        ORDER BY d.message_id LIMIT p_count);
END $$;
REVOKE ALL ON FUNCTION consign.redrive_next(consign.redrive, bigint) FROM PUBLIC;

-- How many messages a redrive may move now: its allowance grows with its rate from the start, up to one second's
-- worth. The same rule as Redrive::step_len in the kernel.
CREATE FUNCTION consign.step_len(p_redrive consign.redrive, p_limit int, p_now timestamptz) RETURNS bigint
    LANGUAGE sql IMMUTABLE
    RETURN least(p_limit::bigint, p_redrive.at_most - p_redrive.moved,
                 trunc(least(greatest(extract(epoch FROM p_now - p_redrive.paced_at), 0), 1) * p_redrive.rate_per_second)::bigint);
REVOKE ALL ON FUNCTION consign.step_len(consign.redrive, int, timestamptz) FROM PUBLIC;

-- Takes the next step of the running redrive that has waited longest and may take one: up to p_limit messages by
-- ascending id, within its rate. No row if there is nothing to do now. A redrive that another transaction steps is skipped.
CREATE FUNCTION consign.step_redrive(p_limit int DEFAULT 100) RETURNS SETOF consign.redrive
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_redrive   consign.redrive;
    v_now       timestamptz;
    v_seen      bigint[] := '{}';
    v_count     bigint;
    v_ids       bigint[];
    v_exhausted boolean;
    v_moved     bigint;
    v_reason    text;
BEGIN
    PERFORM consign.require_read_committed();
    IF p_limit IS NULL OR p_limit NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'limit: must be from 1 to 1000' USING ERRCODE = 'CN006';
    END IF;
    LOOP
        v_now := consign.clock();
        SELECT * INTO v_redrive FROM consign.redrive r
            WHERE r.state = 'running' AND NOT r.id = ANY (v_seen)
                AND (consign.step_len(r, p_limit, v_now) > 0 OR r.paced_at > v_now)
            ORDER BY r.updated_at, r.id LIMIT 1 FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN;
        END IF;
        -- The clock is read under the lock: the step before this one may have used up the allowance.
        v_now := consign.clock();
        v_count := consign.step_len(v_redrive, p_limit, v_now);
        EXIT WHEN v_count > 0;
        -- After the clock was set back, it must not wait for the time that it showed before.
        UPDATE consign.redrive r SET paced_at = least(r.paced_at, v_now) WHERE r.id = v_redrive.id;
        v_seen := v_seen || v_redrive.id;
    END LOOP;
    v_ids := consign.redrive_next(v_redrive, v_count + 1);
    v_exhausted := cardinality(v_ids) <= v_count;
    v_ids := v_ids[: v_count];
    v_reason := format('redrive %s: %s', v_redrive.id, v_redrive.reason);
    -- Counts what was really moved: an operator may have moved some meanwhile.
    IF v_redrive.action = 'requeue' THEN
        SELECT count(*) INTO v_moved FROM consign.put_back(v_ids, 'requeue', v_redrive.actor, v_reason, v_redrive.started_at) b
            WHERE b.answer = 'moved';
    ELSE
        SELECT count(*) INTO v_moved FROM consign.close_messages(v_ids, v_redrive.action, v_redrive.actor, v_reason, v_redrive.started_at) c
            WHERE c.answer = 'moved';
    END IF;
    RETURN QUERY UPDATE consign.redrive r SET
            moved = r.moved + v_moved,
            skipped = CASE WHEN v_exhausted THEN greatest(r.total - r.moved - v_moved, 0) ELSE r.skipped END,
            cursor = coalesce(v_ids[cardinality(v_ids)], r.cursor),
            state = CASE WHEN v_exhausted OR r.moved + v_moved = r.at_most THEN 'done' ELSE r.state END,
            finished_at = CASE WHEN v_exhausted OR r.moved + v_moved = r.at_most THEN v_now END,
            updated_at = v_now,
            -- Rounded up, so that the rate is never exceeded.
            paced_at = coalesce(greatest(r.paced_at, v_now - interval '1 second') + interval '1 microsecond'
                * ((v_moved * 1000000 + r.rate_per_second - 1) / r.rate_per_second), v_now)
        WHERE r.id = v_redrive.id
        RETURNING r.*;
END $$;
REVOKE ALL ON FUNCTION consign.step_redrive(int) FROM PUBLIC;

-- Stops or resumes a redrive; a redrive in another state stays as it is.
CREATE FUNCTION consign.set_redrive_state(p_id bigint, p_from text, p_to text, p_action text, p_actor text, p_reason text)
    RETURNS consign.redrive
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_now     timestamptz;
    v_redrive consign.redrive;
BEGIN
    PERFORM consign.require_read_committed();
    PERFORM consign.require_reason(p_actor, p_reason);
    SELECT * INTO v_redrive FROM consign.redrive r WHERE r.id = p_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'redrive % does not exist', p_id
            USING ERRCODE = 'CN008', DETAIL = jsonb_build_object('id', p_id)::text;
    END IF;
    IF v_redrive.state = p_from THEN
        v_now := consign.clock();
        UPDATE consign.redrive r SET state = p_to, updated_at = v_now, paced_at = v_now WHERE r.id = p_id
            RETURNING * INTO v_redrive;
        PERFORM consign.record_redrive(v_redrive, p_action, p_actor, p_reason, v_now);
    END IF;
    RETURN v_redrive;
END $$;
REVOKE ALL ON FUNCTION consign.set_redrive_state(bigint, text, text, text, text, text) FROM PUBLIC;

-- Stops a running redrive after the step it is in.
CREATE FUNCTION consign.stop_redrive(p_id bigint, p_actor text, p_reason text) RETURNS consign.redrive
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$ SELECT consign.set_redrive_state(p_id, 'running', 'stopped', 'stop_redrive', p_actor, p_reason) $$;
REVOKE ALL ON FUNCTION consign.stop_redrive(bigint, text, text) FROM PUBLIC;

-- Resumes a stopped redrive where it stopped.
CREATE FUNCTION consign.resume_redrive(p_id bigint, p_actor text, p_reason text) RETURNS consign.redrive
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$ SELECT consign.set_redrive_state(p_id, 'stopped', 'running', 'resume_redrive', p_actor, p_reason) $$;
REVOKE ALL ON FUNCTION consign.resume_redrive(bigint, text, text) FROM PUBLIC;
