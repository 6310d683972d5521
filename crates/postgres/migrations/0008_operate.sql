-- Operator actions on messages and leases. Every action is recorded with its actor and reason.

-- Records an operator action on a message in the audit.
CREATE FUNCTION consign.record_action(p_id bigint, p_action text, p_actor text, p_reason text, p_now timestamptz)
    RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
    AS $$
BEGIN
    INSERT INTO consign.audit (at, actor, action, queue, message_id, reason)
        SELECT p_now, p_actor, p_action, queue, id, p_reason FROM consign.message WHERE id = p_id;
END $$;
REVOKE ALL ON FUNCTION consign.record_action(bigint, text, text, text, timestamptz) FROM PUBLIC;

-- The answer for a message that is not where the action needs it.
CREATE FUNCTION consign.refusal(p_id bigint, p_answer text, OUT answer text, OUT state text)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    state := consign.state_of(p_id);
    answer := CASE WHEN state IS NULL THEN 'no_such_message' ELSE p_answer END;
END $$;
REVOKE ALL ON FUNCTION consign.refusal(bigint, text) FROM PUBLIC;

-- Whether a message taken out of `dead` or `held` may be ready; if not, it is inserted into waiting.
CREATE FUNCTION consign.ready_or_waiting(p_message consign.message, p_tries int, p_attempts int, p_now timestamptz)
    RETURNS text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF p_message."group" IS NOT NULL AND ((consign.known_queue(p_message.queue)).policy->>'ordered')::boolean
        AND NOT consign.become_head(p_message.queue, p_message."group", p_message.id)
    THEN
        INSERT INTO consign.waiting (queue, "group", message_id, due_at, tries, attempts)
            VALUES (p_message.queue, p_message."group", p_message.id, p_now, p_tries, p_attempts);
        RETURN 'waiting';
    END IF;
    RETURN 'ready';
END $$;
REVOKE ALL ON FUNCTION consign.ready_or_waiting(consign.message, int, int, timestamptz) FROM PUBLIC;

-- Counts messages of a queue that have left, and dead ones that were requeued or discarded. Locks the row of the queue until
-- the transaction ends, so it is the last step of an operation.
CREATE FUNCTION consign.count_departed(p_queue text, p_messages bigint, p_dead bigint, p_revived bigint, p_discarded bigint DEFAULT 0)
    RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    INSERT INTO consign.departed AS t (queue, messages, dead, revived, discarded)
            VALUES (p_queue, p_messages, p_dead, p_revived, p_discarded)
        ON CONFLICT (queue) DO UPDATE SET messages = t.messages + excluded.messages, dead = t.dead + excluded.dead,
            revived = t.revived + excluded.revived, discarded = t.discarded + excluded.discarded;
END $$;
REVOKE ALL ON FUNCTION consign.count_departed(text, bigint, bigint, bigint, bigint) FROM PUBLIC;

-- Moves dead or held messages back; p_action is `requeue` (fresh tries) or `unhold` (the tries it had). Messages that may
-- be ready become one batch per queue, by id. Messages that died after p_dead_by stay.
CREATE FUNCTION consign.put_back(p_ids bigint[], p_action text, p_actor text, p_reason text,
                                 p_dead_by timestamptz DEFAULT 'infinity')
    RETURNS TABLE (id bigint, answer text, state text)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
#variable_conflict use_column
DECLARE
    v_now      timestamptz := consign.clock();
    v_place    text := CASE WHEN p_action = 'requeue' THEN 'dead' ELSE 'held' END;
    v_found    boolean;
    v_message  consign.message;
    v_tries    int;
    v_attempts int;
    v_moved    bigint[] := '{}';
    v_ready    bigint[] := '{}';
    v_ready_tries    int[] := '{}';
    v_ready_attempts int[] := '{}';
BEGIN
    PERFORM consign.require_read_committed();
    PERFORM consign.require_reason(p_actor, p_reason);
    -- Groups in one order everywhere, or this and a producer could wait for each other.
    FOR v_message IN
        SELECT m.* FROM consign.message m WHERE m.id = ANY (p_ids) AND m.id BETWEEN consign.least_id(p_ids) AND consign.greatest_id(p_ids) ORDER BY m.queue, m."group", m.id
    LOOP
        -- A settle may move the message between the two statements: then look again.
        LOOP
            IF p_action = 'requeue' THEN
                DELETE FROM consign.dead d WHERE d.message_id = v_message.id AND d.at <= p_dead_by AND NOT d.erased
                    RETURNING 0, d.attempt_no INTO v_tries, v_attempts;
            ELSE
                DELETE FROM consign.held h WHERE h.message_id = v_message.id RETURNING h.tries, h.attempts INTO v_tries, v_attempts;
            END IF;
            v_found := FOUND;
            EXIT WHEN v_found;
            state := consign.state_of(v_message.id);
            EXIT WHEN state IS DISTINCT FROM v_place
                OR EXISTS (SELECT FROM consign.dead d WHERE d.message_id = v_message.id AND (d.at > p_dead_by OR d.erased));
        END LOOP;
        -- A concurrent purge removed it: answered below as no_such_message.
        CONTINUE WHEN NOT v_found AND state IS NULL;
        id := v_message.id;
        IF v_found THEN
            v_moved := v_moved || v_message.id;
            answer := 'moved';
            state := consign.ready_or_waiting(v_message, v_tries, v_attempts, v_now);
            IF state = 'ready' THEN
                v_ready := v_ready || v_message.id;
                v_ready_tries := v_ready_tries || v_tries;
                v_ready_attempts := v_ready_attempts || v_attempts;
            END IF;
        ELSIF state = v_place AND EXISTS (SELECT FROM consign.dead d WHERE d.message_id = v_message.id AND d.erased) THEN
            answer := 'erased';
        ELSE
            answer := 'not_' || v_place;
        END IF;
        RETURN NEXT;
    END LOOP;
    PERFORM consign.record_action(u, p_action, p_actor, p_reason, v_now) FROM (SELECT u FROM unnest(v_moved) u ORDER BY u) moved;
    PERFORM consign.make_ready(r.queue, v_now, r.ids, r.tries, r.attempts, false)
        FROM (SELECT m.queue, array_agg(e.id ORDER BY e.id) AS ids, array_agg(e.tries ORDER BY e.id) AS tries,
                     array_agg(e.attempts ORDER BY e.id) AS attempts
                  FROM unnest(v_ready, v_ready_tries, v_ready_attempts) AS e (id, tries, attempts)
                  JOIN consign.message m ON m.id = e.id AND m.id BETWEEN consign.least_id(v_ready) AND consign.greatest_id(v_ready) GROUP BY m.queue) r;
    PERFORM consign.call_hooks('moved', v_moved, p_action);
    IF p_action = 'requeue' THEN
        PERFORM consign.count_departed(r.queue, 0, 0, r.count)
            FROM (SELECT m.queue, count(*) AS count FROM consign.message m
                      WHERE m.id = ANY (v_moved) AND m.id BETWEEN consign.least_id(v_moved) AND consign.greatest_id(v_moved)
                      GROUP BY m.queue ORDER BY m.queue) r;
    END IF;
    RETURN QUERY SELECT DISTINCT u, 'no_such_message', NULL::text FROM unnest(p_ids) u
        WHERE u IS NOT NULL AND NOT EXISTS (SELECT FROM consign.message m WHERE m.id = u AND m.id BETWEEN consign.least_id(p_ids) AND consign.greatest_id(p_ids));
END $$;
REVOKE ALL ON FUNCTION consign.put_back(bigint[], text, text, text, timestamptz) FROM PUBLIC;

-- Gives dead messages a fresh set of tries. A row per message, by id: moved, not_dead, erased,
-- no_such_message.
CREATE FUNCTION consign.requeue(p_ids bigint[], p_actor text, p_reason text)
    RETURNS TABLE (id bigint, answer text, state text)
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$ SELECT * FROM consign.put_back(p_ids, 'requeue', p_actor, p_reason) ORDER BY 1 $$;
REVOKE ALL ON FUNCTION consign.requeue(bigint[], text, text) FROM PUBLIC;

-- Puts held messages back with the tries they had. A row per message, by id: moved, not_held,
-- no_such_message.
CREATE FUNCTION consign.unhold(p_ids bigint[], p_actor text, p_reason text)
    RETURNS TABLE (id bigint, answer text, state text)
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$ SELECT * FROM consign.put_back(p_ids, 'unhold', p_actor, p_reason) ORDER BY 1 $$;
REVOKE ALL ON FUNCTION consign.unhold(bigint[], text, text) FROM PUBLIC;

-- Takes one message out of its ready batch or out of waiting (waited_in: its group); NULLs if it is in neither.
--
-- Walks the batches of the message's queue: there is no index from message to batch, because maintaining one would cost
-- every enqueue and every claim.
CREATE FUNCTION consign.take_out(p_id bigint, OUT tries int, OUT attempts int, OUT waited_in text)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_batch record;
    v_index int;
BEGIN
    SELECT r.ctid, r.ids, r.tries, r.attempts INTO v_batch FROM consign.ready r
        WHERE r.queue = (SELECT queue FROM consign.message WHERE id = p_id) AND r.ids @> ARRAY[p_id]
        FOR UPDATE;
    IF FOUND THEN
        v_index := array_position(v_batch.ids, p_id);
        tries := v_batch.tries[v_index];
        attempts := v_batch.attempts[v_index];
        IF cardinality(v_batch.ids) = 1 THEN
            DELETE FROM consign.ready r WHERE r.ctid = v_batch.ctid;
        ELSE
            UPDATE consign.ready r SET
                ids = v_batch.ids[: v_index - 1] || v_batch.ids[v_index + 1 :],
                tries = v_batch.tries[: v_index - 1] || v_batch.tries[v_index + 1 :],
                attempts = v_batch.attempts[: v_index - 1] || v_batch.attempts[v_index + 1 :]
                WHERE r.ctid = v_batch.ctid;
        END IF;
        RETURN;
    END IF;
    DELETE FROM consign.waiting w WHERE w.message_id = p_id
        RETURNING w.tries, w.attempts, w."group" INTO tries, attempts, waited_in;
END $$;
REVOKE ALL ON FUNCTION consign.take_out(bigint) FROM PUBLIC;

-- Holds ready and waiting messages. In an ordered queue a held message stays the head, or keeps its place behind it: no
-- message of its group passes it. A row per message, by id: moved, not_holdable, no_such_message.
CREATE FUNCTION consign.hold(p_ids bigint[], p_actor text, p_reason text)
    RETURNS TABLE (id bigint, answer text, state text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_now   timestamptz := consign.clock();
    v_queue text;
    v_entry record;
    v_moved bigint[] := '{}';
BEGIN
    PERFORM consign.require_read_committed();
    PERFORM consign.require_reason(p_actor, p_reason);
    -- In the order of close_messages, or this and a cancel could wait for each other. One message needs no order.
    FOR v_queue IN
        SELECT DISTINCT m.queue FROM consign.message m
            WHERE cardinality(p_ids) > 1 AND m.id = ANY (p_ids) AND m.id BETWEEN consign.least_id(p_ids) AND consign.greatest_id(p_ids)
            ORDER BY m.queue
    LOOP
        PERFORM FROM consign.ready r WHERE r.queue = v_queue AND r.ids && p_ids ORDER BY r.due_at, r.batch FOR UPDATE;
        PERFORM FROM consign.waiting w WHERE w.queue = v_queue AND w.message_id = ANY (p_ids) ORDER BY w."group", w.message_id FOR UPDATE;
    END LOOP;
    FOR id IN SELECT DISTINCT u FROM unnest(p_ids) u WHERE u IS NOT NULL ORDER BY u LOOP
        -- It may be returned or promoted between the two statements: then look again.
        FOR v_look IN 1 .. 5 LOOP
            SELECT * INTO v_entry FROM consign.take_out(id);
            EXIT WHEN v_entry.tries IS NOT NULL OR coalesce(consign.state_of(id) NOT IN ('ready', 'waiting'), true);
        END LOOP;
        IF v_entry.tries IS NOT NULL THEN
            INSERT INTO consign.held (message_id, queue, at, reason, tries, attempts, "group")
                SELECT m.id, m.queue, v_now, p_reason, v_entry.tries, v_entry.attempts, v_entry.waited_in
                    FROM consign.message m WHERE m.id = hold.id;
            PERFORM consign.record_action(id, 'hold', p_actor, p_reason, v_now);
            v_moved := v_moved || id;
            answer := 'moved';
            state := 'held';
        ELSE
            SELECT r.answer, r.state INTO answer, state FROM consign.refusal(id, 'not_holdable') r;
        END IF;
        RETURN NEXT;
    END LOOP;
    PERFORM consign.call_hooks('moved', v_moved, 'hold'::text);
END $$;
REVOKE ALL ON FUNCTION consign.hold(bigint[], text, text) FROM PUBLIC;

-- Records what an operator found out about held messages: delivered; dead: not delivered and not to be tried again; or
-- unknown: dead, and in doubt if requeued. p_result is for queues with a `resolve` hook. A row per message, by id: moved,
-- not_held, no_such_message.
--
-- The attempts have the fence and token of a lease that the operator claims and settles in this transaction; it is never
-- visible.
CREATE FUNCTION consign.resolve(p_ids bigint[], p_outcome text, p_actor text, p_reason text, p_result jsonb DEFAULT NULL)
    RETURNS TABLE (id bigint, answer text, state text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
#variable_conflict use_column
DECLARE
    v_now      timestamptz := consign.clock();
    v_state    text := CASE p_outcome WHEN 'delivered' THEN 'delivered' ELSE 'dead' END;
    v_outcome  consign.outcome := CASE p_outcome WHEN 'unknown' THEN 'uncertain' ELSE v_state END;
    v_result   jsonb;
    v_fence    bigint := nextval(pg_get_serial_sequence('consign.lease', 'fence'));
    v_token    uuid := gen_random_uuid();
    v_queue    consign.queue;
    v_message  consign.message;
    v_attempts int;
    -- Heads of groups whose next message is promoted at the end.
    v_heads    bigint[] := '{}';
    v_died     bigint[] := '{}';
BEGIN
    PERFORM consign.require_read_committed();
    PERFORM consign.require_reason(p_actor, p_reason);
    IF (p_outcome IN ('delivered', 'dead', 'unknown')) IS NOT TRUE THEN
        RAISE EXCEPTION 'outcome: must be delivered, dead or unknown' USING ERRCODE = 'CN006';
    END IF;
    IF p_result IS NOT NULL AND (p_outcome <> 'delivered' OR (SELECT count(DISTINCT u) FROM unnest(p_ids) u) <> 1) THEN
        RAISE EXCEPTION 'result: applies to one message that was delivered; resolve one at a time' USING ERRCODE = 'CN006';
    END IF;
    IF p_result IS NOT NULL AND EXISTS (SELECT FROM consign.message m JOIN consign.queue n ON n.name = m.queue
                                            WHERE m.id = ANY (p_ids) AND m.id BETWEEN consign.least_id(p_ids) AND consign.greatest_id(p_ids) AND NOT n.hooks ? 'resolve') THEN
        RAISE EXCEPTION 'result: messages of this queue are resolved without one' USING ERRCODE = 'CN006';
    END IF;
    -- In the order of put_back, or this and an unhold of the same messages could wait for each other.
    PERFORM FROM consign.held h JOIN consign.message m ON m.id = h.message_id
        WHERE h.message_id = ANY (p_ids) AND m.id BETWEEN consign.least_id(p_ids) AND consign.greatest_id(p_ids) ORDER BY m.queue, m."group", m.id FOR UPDATE OF h;
    FOR id IN SELECT DISTINCT u FROM unnest(p_ids) u WHERE u IS NOT NULL ORDER BY u LOOP
        SELECT m.* INTO v_message FROM consign.message m WHERE m.id = resolve.id;
        -- It may be held between the two statements: then look again.
        LOOP
            DELETE FROM consign.held h WHERE h.message_id = resolve.id RETURNING h.attempts + 1 INTO v_attempts;
            EXIT WHEN FOUND;
            SELECT r.answer, r.state INTO answer, state FROM consign.refusal(resolve.id, 'not_held') r;
            EXIT WHEN state IS DISTINCT FROM 'held';
        END LOOP;
        IF v_attempts IS NOT NULL THEN
            v_queue := consign.known_queue(v_message.queue);
            v_result := NULL;
            IF v_queue.hooks ? 'resolve' THEN
                EXECUTE format('SELECT %s($1, $2, $3)', v_queue.hooks->>'resolve') INTO v_result
                    USING v_message, p_outcome, p_result;
            END IF;
            INSERT INTO consign.attempt (message_id, attempt_no, outcome, owner, fence, token, claimed_at, finished_at, code, detail, result)
                VALUES (resolve.id, v_attempts, v_outcome, p_actor, v_fence, v_token, v_now, v_now, 'resolved', p_reason, v_result);
            IF v_state = 'dead' THEN
                INSERT INTO consign.dead (message_id, queue, at, attempt_no, code, detail)
                    VALUES (resolve.id, v_message.queue, v_now, v_attempts, 'resolved', p_reason);
                v_died := v_died || resolve.id;
            END IF;
            PERFORM consign.record_action(resolve.id, 'resolve', p_actor, p_reason, v_now);
            IF v_queue.hooks ? 'settled' THEN
                EXECUTE format('SELECT %s($1, $2, $3)', v_queue.hooks->>'settled')
                    USING v_message.queue, ARRAY[resolve.id], v_fence;
            END IF;
            -- A message that was held while it waited may not be the head yet. The lock makes sure that a claim that has
            -- just promoted it is seen.
            PERFORM FROM consign.group_head t WHERE t.queue = v_message.queue AND t."group" = v_message."group" FOR KEY SHARE;
            IF (v_queue.policy->>'ordered')::boolean AND (v_state = 'delivered' OR v_queue.policy->>'on_dead' = 'continue')
                AND EXISTS (SELECT FROM consign.group_head t
                                WHERE t.queue = v_message.queue AND t."group" = v_message."group" AND t.message_id = resolve.id)
            THEN
                v_heads := v_heads || resolve.id;
            END IF;
            answer := 'moved';
            state := v_state;
        END IF;
        RETURN NEXT;
    END LOOP;
    FOR v_message IN
        SELECT m.* FROM consign.message m WHERE m.id = ANY (v_heads) AND m.id BETWEEN consign.least_id(v_heads) AND consign.greatest_id(v_heads) ORDER BY m.id
    LOOP
        PERFORM consign.promote_next(v_message.queue, v_message."group", v_now);
    END LOOP;
    IF v_died <> '{}' THEN
        PERFORM consign.record_deaths(v_died, v_now);
    END IF;
END $$;
REVOKE ALL ON FUNCTION consign.resolve(bigint[], text, text, text, jsonb) FROM PUBLIC;

-- The first characters of a lease's token, which name the lease to operators and are too few to settle it.
CREATE FUNCTION consign.token_prefix(p_fence bigint) RETURNS text
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$ SELECT left(token::text, 8) FROM consign.lease WHERE fence = p_fence $$;
REVOKE ALL ON FUNCTION consign.token_prefix(bigint) FROM PUBLIC;

-- Ends the lease whose token begins with p_token_prefix as if it had expired: its messages return to ready, and later
-- reports of its owner are late results. CN012: there is none.
CREATE FUNCTION consign.terminate_lease(p_token_prefix text, p_actor text, p_reason text,
                                        OUT fence bigint, OUT queue text, OUT owner text, OUT messages bigint)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
#variable_conflict use_column
DECLARE
    v_prefix text := lower(p_token_prefix);
    v_lease  consign.lease;
    v_found  consign.lease;
    v_count  int := 0;
    v_now    timestamptz;
    v_reason text;
BEGIN
    PERFORM consign.require_read_committed();
    PERFORM consign.require_reason(p_actor, p_reason);
    IF (v_prefix ~ '^[0-9a-f-]{4,36}$') IS NOT TRUE THEN
        RAISE EXCEPTION 'token %: must be the first 4 to 36 characters of a lease''s token', quote_nullable(p_token_prefix)
            USING ERRCODE = 'CN006';
    END IF;
    FOR v_found IN SELECT l.* FROM consign.lease l WHERE starts_with(l.token::text, v_prefix) ORDER BY l.fence FOR UPDATE LOOP
        v_lease := v_found;
        v_count := v_count + 1;
    END LOOP;
    IF v_count = 0 THEN
        RAISE EXCEPTION 'no lease has a token that begins with %', v_prefix
            USING ERRCODE = 'CN012', DETAIL = jsonb_build_object('prefix', v_prefix)::text;
    ELSIF v_count > 1 THEN
        RAISE EXCEPTION 'token "%": % leases have a token that begins so; give more of it', v_prefix, v_count
            USING ERRCODE = 'CN006';
    END IF;
    -- The clock is read under the lock, as in an expiry.
    v_now := consign.clock();
    v_reason := format('%s (lease %s of %s)', p_reason, v_lease.fence, v_lease.owner);
    PERFORM consign.require_reason(p_actor, v_reason);
    PERFORM consign.end_lease(v_lease, v_now);
    INSERT INTO consign.audit (at, actor, action, queue, reason) VALUES (v_now, p_actor, 'end_lease', v_lease.queue, v_reason);
    fence := v_lease.fence;
    queue := v_lease.queue;
    owner := v_lease.owner;
    messages := cardinality(v_lease.ids);
END $$;
REVOKE ALL ON FUNCTION consign.terminate_lease(text, text, text) FROM PUBLIC;

-- Records that an operator reads a message's payload, and returns the message. No row: the message does not exist.
CREATE FUNCTION consign.reveal(p_id bigint, p_actor text, p_reason text) RETURNS SETOF consign.message
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    PERFORM consign.require_reason(p_actor, p_reason);
    PERFORM consign.record_action(p_id, 'reveal', p_actor, p_reason, consign.clock());
    RETURN QUERY SELECT m.* FROM consign.message m WHERE m.id = p_id;
END $$;
REVOKE ALL ON FUNCTION consign.reveal(bigint, text, text) FROM PUBLIC;

-- Enqueues a copy of a message as a new one, with p_payload instead of its own unless that is null, and returns its id. The
-- header `consign_resent_from` names the message; the record on the message names the copy. Null: the message does not exist.
CREATE FUNCTION consign.resend(p_id bigint, p_payload jsonb, p_actor text, p_reason text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_message consign.message;
    v_copy    bigint;
    v_reason  text;
BEGIN
    PERFORM consign.require_reason(p_actor, p_reason);
    -- Locked, so that an erasure comes before the copy or finds it finished.
    SELECT m.* INTO v_message FROM consign.message m WHERE m.id = p_id FOR SHARE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    IF EXISTS (SELECT FROM consign.erasure e WHERE e.message_id = p_id) THEN
        RAISE EXCEPTION 'message %: its content was erased: there is nothing to send; enqueue a new message', p_id
            USING ERRCODE = 'CN006';
    END IF;
    v_copy := consign.enqueue(v_message.queue, coalesce(p_payload, v_message.payload), NULL, v_message."group",
                              v_message.headers || jsonb_build_object('consign_resent_from', p_id::text));
    v_reason := format('as message %s: %s', v_copy, p_reason);
    PERFORM consign.require_reason(p_actor, v_reason);
    PERFORM consign.record_action(p_id, 'resend', p_actor, v_reason, consign.clock());
    RETURN v_copy;
END $$;
REVOKE ALL ON FUNCTION consign.resend(bigint, jsonb, text, text) FROM PUBLIC;

-- Deletes finished messages of a queue with everything recorded about them. For apps, which make sure that the messages
-- stay finished meanwhile. The append-only triggers allow it because this transaction writes an audit entry.
CREATE FUNCTION consign.purge_messages(p_queue text, p_ids bigint[], p_actor text, p_reason text, p_now timestamptz) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_unfinished bigint;
    v_audit      bigint;
    v_dead       bigint;
    v_discarded  bigint;
    v_messages   bigint;
BEGIN
    SELECT u INTO v_unfinished FROM unnest(p_ids) u WHERE consign.state_of(u) NOT IN ('delivered', 'dead', 'discarded') LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'purge: message % is not finished', v_unfinished
            USING ERRCODE = 'CN006', HINT = 'Only delivered, dead and discarded messages can be purged.';
    END IF;
    INSERT INTO consign.audit (at, actor, action, queue, reason) VALUES (p_now, p_actor, 'purge', p_queue, p_reason)
        RETURNING id INTO v_audit;
    PERFORM set_config('consign.purge', v_audit::text, true);
    DELETE FROM consign.dead d WHERE d.message_id = ANY (p_ids);
    GET DIAGNOSTICS v_dead = ROW_COUNT;
    DELETE FROM consign.discarded x WHERE x.message_id = ANY (p_ids);
    GET DIAGNOSTICS v_discarded = ROW_COUNT;
    DELETE FROM consign.late l WHERE l.message_id = ANY (p_ids) AND l.message_id BETWEEN consign.least_id(p_ids) AND consign.greatest_id(p_ids);
    DELETE FROM consign.attempt a WHERE a.message_id = ANY (p_ids) AND a.message_id BETWEEN consign.least_id(p_ids) AND consign.greatest_id(p_ids);
    -- No archive has what operators did to these messages, so it stays when their range leaves.
    WITH gone AS (DELETE FROM consign.audit u
                      WHERE u.message_id = ANY (p_ids) AND u.message_id BETWEEN consign.least_id(p_ids) AND consign.greatest_id(p_ids)
                      RETURNING u.*)
    INSERT INTO consign.audit (id, message_id, at, actor, action, queue, reason, login)
        SELECT g.id, -g.message_id, g.at, g.actor, g.action, g.queue, g.reason, g.login FROM gone g;
    DELETE FROM consign.message_key k USING consign.message m
        WHERE m.id = ANY (p_ids) AND m.id BETWEEN consign.least_id(p_ids) AND consign.greatest_id(p_ids) AND k.queue = m.queue AND k.key = m.key;
    DELETE FROM consign.message m WHERE m.id = ANY (p_ids) AND m.id BETWEEN consign.least_id(p_ids) AND consign.greatest_id(p_ids);
    GET DIAGNOSTICS v_messages = ROW_COUNT;
    PERFORM set_config('consign.purge', '', true);
    -- Also if they are not counted yet: a count that runs at this moment does not see the deletion.
    WITH changed AS (
        UPDATE consign.range r SET is_counted = false
            WHERE EXISTS (SELECT FROM unnest(p_ids) u WHERE u >= r.first AND u < r.until)
            RETURNING r.number)
    DELETE FROM consign.range_count c USING changed WHERE c.number = changed.number;
    PERFORM consign.count_departed(p_queue, v_messages, v_dead, 0, v_discarded);
END $$;
REVOKE ALL ON FUNCTION consign.purge_messages(text, bigint[], text, text, timestamptz) FROM PUBLIC;
