-- Closing messages without delivery: discard, cancel, skip. Then redrives: requeueing, discarding or cancelling by filter, at a rate.

-- Takes messages of a queue out of their ready batches, all in one walk over the batches. What is not returned was in none.
CREATE FUNCTION consign.take_ready(p_queue text, p_ids bigint[]) RETURNS TABLE (id bigint, attempts int)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_hashjoin = on
    AS $$
#variable_conflict use_column
DECLARE
    v_least    bigint := consign.least_id(p_ids);
    v_greatest bigint := consign.greatest_id(p_ids);
    v_places tid[] := ARRAY(SELECT DISTINCT r.ctid FROM consign.ready r CROSS JOIN LATERAL unnest(r.ids) AS e (id)
                                JOIN (SELECT DISTINCT u FROM unnest(p_ids) u) w (id) ON w.id = e.id
                                WHERE r.queue = p_queue AND e.id BETWEEN v_least AND v_greatest);
    v_batch  record;
BEGIN
    -- A claim may have taken some of a batch, or all, before it could be locked: what is left in it counts.
    FOR v_batch IN
        SELECT r.queue, r.due_at, r.batch, r.ids, r.tries, r.attempts FROM consign.ready r WHERE r.ctid = ANY (v_places)
            ORDER BY r.due_at, r.batch FOR UPDATE
    LOOP
        RETURN QUERY SELECT e.id, e.attempts FROM unnest(v_batch.ids, v_batch.attempts) AS e (id, attempts) WHERE e.id = ANY (p_ids);
        IF v_batch.ids <@ p_ids THEN
            DELETE FROM consign.ready r WHERE (r.queue, r.due_at, r.batch) = (v_batch.queue, v_batch.due_at, v_batch.batch);
        ELSE
            UPDATE consign.ready r SET (ids, tries, attempts) = (
                    SELECT array_agg(e.id ORDER BY e.ord), array_agg(e.tries ORDER BY e.ord), array_agg(e.attempts ORDER BY e.ord)
                        FROM unnest(v_batch.ids, v_batch.tries, v_batch.attempts) WITH ORDINALITY AS e (id, tries, attempts, ord)
                        WHERE NOT e.id = ANY (p_ids))
                WHERE (r.queue, r.due_at, r.batch) = (v_batch.queue, v_batch.due_at, v_batch.batch);
        END IF;
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION consign.take_ready(text, bigint[]) FROM PUBLIC;

-- Closes messages without delivery, for good: p_action is `discard` (dead and held ones) or `cancel` (ready and waiting ones).
-- Then the groups go on whose heads they were. Messages that died after p_dead_by stay, and those of a queue with hooks but
-- not `discarded`: the app has no such end.
CREATE FUNCTION consign.close_messages(p_ids bigint[], p_action text, p_actor text, p_reason text,
                                       p_dead_by timestamptz DEFAULT 'infinity')
    RETURNS TABLE (id bigint, answer text, state text)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
#variable_conflict use_column
DECLARE
    v_now      timestamptz := consign.clock();
    v_places   text[] := CASE p_action WHEN 'discard' THEN '{dead,held}'::text[] ELSE '{ready,waiting}' END;
    v_message  consign.message;
    v_queue    consign.queue;
    v_is_app   boolean;
    v_attempts int;
    -- What the walk over the batches of the queue found.
    v_taken    bigint[];
    v_counts   int[];
    v_moved    bigint[] := '{}';
    v_dead     bigint[] := '{}';
    -- Heads of groups whose next message is promoted at the end.
    v_heads    bigint[] := '{}';
BEGIN
    PERFORM consign.require_read_committed();
    PERFORM consign.require_reason(p_actor, p_reason);
    -- In the order of put_back, or they could wait for each other.
    FOR v_message IN
        SELECT m.* FROM consign.message m WHERE m.id = ANY (p_ids) AND m.id BETWEEN consign.least_id(p_ids) AND consign.greatest_id(p_ids) ORDER BY m.queue, m."group", m.id
    LOOP
        id := v_message.id;
        state := NULL;
        v_attempts := NULL;
        IF v_message.queue IS DISTINCT FROM v_queue.name THEN
            v_queue := consign.known_queue(v_message.queue);
            v_is_app := v_queue.hooks <> '{}' AND NOT v_queue.hooks ? 'discarded';
            IF p_action = 'cancel' AND NOT v_is_app THEN
                SELECT array_agg(t.id), array_agg(t.attempts) INTO v_taken, v_counts FROM consign.take_ready(v_queue.name, p_ids) t;
            END IF;
        END IF;
        IF v_is_app THEN
            answer := 'app_queue';
            RETURN NEXT;
            CONTINUE;
        END IF;
        -- Another operation may move the message between the two statements: then look again.
        FOR v_look IN 1 .. 5 LOOP
            IF p_action = 'discard' THEN
                DELETE FROM consign.dead d WHERE d.message_id = v_message.id AND d.at <= p_dead_by RETURNING d.attempt_no INTO v_attempts;
                IF FOUND THEN
                    v_dead := v_dead || v_message.id;
                ELSE
                    DELETE FROM consign.held h WHERE h.message_id = v_message.id AND p_dead_by = 'infinity' RETURNING h.attempts INTO v_attempts;
                END IF;
            ELSE
                v_attempts := v_counts[array_position(v_taken, v_message.id)];
                IF v_attempts IS NULL THEN
                    DELETE FROM consign.waiting w WHERE w.message_id = v_message.id RETURNING w.attempts INTO v_attempts;
                END IF;
                IF v_attempts IS NULL AND consign.state_of(v_message.id) = 'ready' THEN
                    SELECT t.attempts INTO v_attempts FROM consign.take_out(v_message.id) t;
                END IF;
            END IF;
            EXIT WHEN v_attempts IS NOT NULL;
            state := consign.state_of(v_message.id);
            EXIT WHEN state IS NULL OR NOT state = ANY (v_places)
                OR p_dead_by < 'infinity' AND (state = 'held' OR EXISTS (SELECT FROM consign.dead d WHERE d.message_id = v_message.id AND d.at > p_dead_by));
        END LOOP;
        -- A concurrent purge removed it: answered below as no_such_message.
        CONTINUE WHEN v_attempts IS NULL AND state IS NULL;
        IF v_attempts IS NULL THEN
            answer := CASE p_action WHEN 'discard' THEN 'not_discardable' ELSE 'not_cancellable' END;
        ELSE
            INSERT INTO consign.discarded (message_id, queue, at, attempts, actor, reason)
                VALUES (v_message.id, v_message.queue, v_now, v_attempts, p_actor, p_reason);
            v_moved := v_moved || v_message.id;
            -- It may not be the head. The lock makes sure that a claim that has just promoted it is seen.
            PERFORM FROM consign.group_head t WHERE t.queue = v_message.queue AND t."group" = v_message."group" FOR KEY SHARE;
            IF (v_queue.policy->>'ordered')::boolean
                AND EXISTS (SELECT FROM consign.group_head t
                                WHERE t.queue = v_message.queue AND t."group" = v_message."group" AND t.message_id = v_message.id)
            THEN
                v_heads := v_heads || v_message.id;
            END IF;
            answer := 'moved';
            state := 'discarded';
        END IF;
        RETURN NEXT;
    END LOOP;
    FOR v_message IN
        SELECT m.* FROM consign.message m WHERE m.id = ANY (v_heads) AND m.id BETWEEN consign.least_id(v_heads) AND consign.greatest_id(v_heads) ORDER BY m.id
    LOOP
        PERFORM consign.promote_next(v_message.queue, v_message."group", v_now);
    END LOOP;
    PERFORM consign.record_action(u, p_action, p_actor, p_reason, v_now) FROM (SELECT u FROM unnest(v_moved) u ORDER BY u) moved;
    PERFORM consign.call_hooks('discarded', v_moved, p_action);
    -- Their deaths stay in the totals of the queues.
    PERFORM consign.count_departed(r.queue, 0, 0, r.count)
        FROM (SELECT m.queue, count(*) AS count FROM consign.message m
                  WHERE m.id = ANY (v_dead) AND m.id BETWEEN consign.least_id(v_dead) AND consign.greatest_id(v_dead)
                  GROUP BY m.queue ORDER BY m.queue) r;
    RETURN QUERY SELECT DISTINCT u, 'no_such_message', NULL::text FROM unnest(p_ids) u
        WHERE u IS NOT NULL AND NOT EXISTS (SELECT FROM consign.message m WHERE m.id = u AND m.id BETWEEN consign.least_id(p_ids) AND consign.greatest_id(p_ids));
END $$;
REVOKE ALL ON FUNCTION consign.close_messages(bigint[], text, text, text, timestamptz) FROM PUBLIC;

-- Discards dead and held messages: final, and never delivered. A row per message, by id: moved, not_discardable, app_queue,
-- no_such_message.
CREATE FUNCTION consign.discard(p_ids bigint[], p_actor text, p_reason text)
    RETURNS TABLE (id bigint, answer text, state text)
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$ SELECT * FROM consign.close_messages(p_ids, 'discard', p_actor, p_reason) ORDER BY 1 $$;
REVOKE ALL ON FUNCTION consign.discard(bigint[], text, text) FROM PUBLIC;

-- Cancels ready and waiting messages, due or not. A row per message, by id: moved, not_cancellable, app_queue, no_such_message.
CREATE FUNCTION consign.cancel(p_ids bigint[], p_actor text, p_reason text)
    RETURNS TABLE (id bigint, answer text, state text)
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$ SELECT * FROM consign.close_messages(p_ids, 'cancel', p_actor, p_reason) ORDER BY 1 $$;
REVOKE ALL ON FUNCTION consign.cancel(bigint[], text, text) FROM PUBLIC;

-- Discards or cancels the head of a group of an ordered queue, so that the group goes on. As consign.discard; no row: the group
-- has no head. A leased head is not_discardable.
CREATE FUNCTION consign.skip(p_queue text, p_group text, p_actor text, p_reason text)
    RETURNS TABLE (id bigint, answer text, state text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
#variable_conflict use_column
DECLARE
    v_head consign.group_head;
BEGIN
    PERFORM consign.require_read_committed();
    PERFORM consign.require_reason(p_actor, p_reason);
    IF NOT ((consign.known_queue(p_queue)).policy->>'ordered')::boolean THEN
        RAISE EXCEPTION 'queue %: is not ordered, so no message of a group waits for another', p_queue
            USING ERRCODE = 'CN006', HINT = 'Discard or cancel the message by its id.';
    END IF;
    -- The head may end, or come back, between the two statements: then look again.
    FOR v_look IN 1 .. 5 LOOP
        SELECT * INTO v_head FROM consign.group_head t WHERE t.queue = p_queue AND t."group" = p_group;
        IF FOUND AND v_head.message_id IS NULL THEN
            PERFORM consign.fill_open_heads(p_queue, consign.clock(), p_group);
            SELECT * INTO v_head FROM consign.group_head t WHERE t.queue = p_queue AND t."group" = p_group;
        END IF;
        IF v_head.message_id IS NULL THEN
            RETURN;
        END IF;
        SELECT c.* INTO id, answer, state
            FROM consign.close_messages(ARRAY[v_head.message_id],
                     CASE WHEN consign.state_of(v_head.message_id) IN ('ready', 'waiting') THEN 'cancel' ELSE 'discard' END, p_actor, p_reason) c;
        EXIT WHEN answer IN ('moved', 'app_queue') OR state = 'leased';
    END LOOP;
    answer := replace(answer, 'not_cancellable', 'not_discardable');
    RETURN NEXT;
END $$;
REVOKE ALL ON FUNCTION consign.skip(text, text, text, text) FROM PUBLIC;

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
    v_ids   bigint[];
    v_older bigint[];
BEGIN
    IF p_redrive.action = 'cancel' THEN
        -- Looking up the message of each id costs more than the walk over them, so the first ids are taken before. Most often
        -- all of them were enqueued before the start.
        v_ids := ARRAY(SELECT o.id
            FROM (SELECT u AS id FROM consign.ready r, unnest(r.ids) u WHERE r.queue = p_redrive.queue AND u > v_after
                  UNION ALL SELECT w.message_id FROM consign.waiting w WHERE w.queue = p_redrive.queue AND w.message_id > v_after) o
            ORDER BY o.id LIMIT p_count);
        v_older := ARRAY(SELECT m.id FROM consign.message m
            WHERE m.id = ANY (v_ids) AND m.id BETWEEN consign.least_id(v_ids) AND consign.greatest_id(v_ids)
                AND m.created_at <= p_redrive.started_at ORDER BY m.id);
        IF cardinality(v_ids) IN (0, cardinality(v_older)) OR cardinality(v_ids) < p_count THEN
            RETURN v_older;
        END IF;
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
