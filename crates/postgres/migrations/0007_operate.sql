-- What people do to messages. Every action is recorded with who did it and why.

-- Puts messages that were taken out of `dead` or `held` back: ready, or waiting where it is not
-- their turn. Answers with where it went.
CREATE FUNCTION consign.put_back(p_id bigint, p_tries int, p_attempts int, p_now timestamptz) RETURNS text
    LANGUAGE plpgsql SET search_path = pg_catalog
    AS $$
DECLARE
    v_lane  text;
    v_group text;
    v_row   consign.lane;
BEGIN
    SELECT lane, "group" INTO v_lane, v_group FROM consign.message WHERE id = p_id;
    v_row := consign.known_lane(v_lane);
    IF v_group IS NOT NULL AND (v_row.policy->>'ordered')::boolean
        AND NOT consign.take_turn(v_lane, v_group, p_id)
    THEN
        INSERT INTO consign.waiting (lane, "group", message_id, due_at, tries, attempts)
            VALUES (v_lane, v_group, p_id, p_now, p_tries, p_attempts);
        RETURN 'waiting';
    END IF;
    PERFORM consign.make_ready(v_lane, p_now, ARRAY[p_id], ARRAY[p_tries], ARRAY[p_attempts], false);
    PERFORM consign.wake(v_row);
    RETURN 'ready';
END $$;
REVOKE ALL ON FUNCTION consign.put_back(bigint, int, int, timestamptz) FROM PUBLIC;

CREATE FUNCTION consign.record_action(p_id bigint, p_action text, p_actor text, p_reason text, p_now timestamptz)
    RETURNS void
    LANGUAGE sql SET search_path = pg_catalog
    AS $$
    INSERT INTO consign.audit (at, actor, action, lane, message_id, reason)
        SELECT p_now, p_actor, p_action, lane, id, p_reason FROM consign.message WHERE id = p_id $$;
REVOKE ALL ON FUNCTION consign.record_action(bigint, text, text, text, timestamptz) FROM PUBLIC;

-- The answer for a message that is not where the action needs it.
CREATE FUNCTION consign.refusal(p_id bigint, p_answer text, OUT answer text, OUT state text)
    LANGUAGE sql STABLE SET search_path = pg_catalog
    AS $$
    SELECT CASE WHEN m.known THEN p_answer ELSE 'no_such_message' END, CASE WHEN m.known THEN consign.state_of(p_id) END
        FROM (SELECT EXISTS (SELECT FROM consign.message WHERE id = p_id) AS known) m $$;
REVOKE ALL ON FUNCTION consign.refusal(bigint, text) FROM PUBLIC;

-- Gives dead messages a fresh set of tries. A row per message, by id: moved, not_dead, no_such_message.
CREATE FUNCTION consign.requeue(p_ids bigint[], p_actor text, p_reason text)
    RETURNS TABLE (id bigint, answer text, state text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog
    AS $$
DECLARE
    v_now  timestamptz := consign.clock();
    v_dead consign.dead;
BEGIN
    PERFORM consign.require_reason(p_actor, p_reason);
    FOR id IN SELECT DISTINCT u FROM unnest(p_ids) u ORDER BY u LOOP
        DELETE FROM consign.dead d WHERE d.message_id = requeue.id RETURNING d.* INTO v_dead;
        IF FOUND THEN
            PERFORM consign.record_action(id, 'requeue', p_actor, p_reason, v_now);
            answer := 'moved';
            state := consign.put_back(id, 0, v_dead.attempt_no, v_now);
        ELSE
            SELECT r.answer, r.state INTO answer, state FROM consign.refusal(id, 'not_dead') r;
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION consign.requeue(bigint[], text, text) FROM PUBLIC;

-- Puts held messages back. A row per message, by id: moved, not_held, no_such_message.
CREATE FUNCTION consign.unhold(p_ids bigint[], p_actor text, p_reason text)
    RETURNS TABLE (id bigint, answer text, state text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog
    AS $$
DECLARE
    v_now  timestamptz := consign.clock();
    v_held consign.held;
BEGIN
    PERFORM consign.require_reason(p_actor, p_reason);
    FOR id IN SELECT DISTINCT u FROM unnest(p_ids) u ORDER BY u LOOP
        DELETE FROM consign.held h WHERE h.message_id = unhold.id RETURNING h.* INTO v_held;
        IF FOUND THEN
            PERFORM consign.record_action(id, 'unhold', p_actor, p_reason, v_now);
            answer := 'moved';
            state := consign.put_back(id, v_held.tries, v_held.attempts, v_now);
        ELSE
            SELECT r.answer, r.state INTO answer, state FROM consign.refusal(id, 'not_held') r;
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION consign.unhold(bigint[], text, text) FROM PUBLIC;

-- Takes one message out of its ready run or out of waiting; no row if it is in neither.
--
-- Walks the runs of the message's lane: there is no index from message to run, because keeping one
-- would cost every enqueue and every claim.
CREATE FUNCTION consign.take_out(p_id bigint, OUT tries int, OUT attempts int)
    LANGUAGE plpgsql SET search_path = pg_catalog
    AS $$
DECLARE
    v_run   record;
    v_index int;
BEGIN
    SELECT r.ctid, r.ids, r.tries, r.attempts INTO v_run FROM consign.ready r
        WHERE r.lane = (SELECT lane FROM consign.message WHERE id = p_id) AND r.ids @> ARRAY[p_id]
        FOR UPDATE;
    IF FOUND THEN
        v_index := array_position(v_run.ids, p_id);
        tries := v_run.tries[v_index];
        attempts := v_run.attempts[v_index];
        IF cardinality(v_run.ids) = 1 THEN
            DELETE FROM consign.ready r WHERE r.ctid = v_run.ctid;
        ELSE
            UPDATE consign.ready r SET
                ids = v_run.ids[: v_index - 1] || v_run.ids[v_index + 1 :],
                tries = v_run.tries[: v_index - 1] || v_run.tries[v_index + 1 :],
                attempts = v_run.attempts[: v_index - 1] || v_run.attempts[v_index + 1 :]
                WHERE r.ctid = v_run.ctid;
        END IF;
    ELSE
        DELETE FROM consign.waiting w WHERE w.message_id = p_id
            RETURNING w.tries, w.attempts INTO tries, attempts;
    END IF;
END $$;
REVOKE ALL ON FUNCTION consign.take_out(bigint) FROM PUBLIC;

-- Parks ready and waiting messages. A row per message, by id: moved, not_holdable, no_such_message.
CREATE FUNCTION consign.hold(p_ids bigint[], p_actor text, p_reason text)
    RETURNS TABLE (id bigint, answer text, state text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog
    AS $$
DECLARE
    v_now   timestamptz := consign.clock();
    v_entry record;
BEGIN
    PERFORM consign.require_reason(p_actor, p_reason);
    FOR id IN SELECT DISTINCT u FROM unnest(p_ids) u ORDER BY u LOOP
        SELECT * INTO v_entry FROM consign.take_out(id);
        IF v_entry.tries IS NOT NULL THEN
            INSERT INTO consign.held (message_id, lane, at, reason, tries, attempts)
                SELECT m.id, m.lane, v_now, p_reason, v_entry.tries, v_entry.attempts
                    FROM consign.message m WHERE m.id = hold.id;
            PERFORM consign.record_action(id, 'hold', p_actor, p_reason, v_now);
            answer := 'moved';
            state := 'held';
        ELSE
            SELECT r.answer, r.state INTO answer, state FROM consign.refusal(id, 'not_holdable') r;
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION consign.hold(bigint[], text, text) FROM PUBLIC;
