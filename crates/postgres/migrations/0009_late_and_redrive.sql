-- Late results, and requeueing by filter.

-- What a worker reported about a message it no longer held: evidence, never an outcome. At most one
-- per lease and message, and also a success `after_all`, which was witnessed after another word.
CREATE TABLE consign.late (
    message_id bigint NOT NULL,
    fence      bigint NOT NULL,
    at         timestamptz NOT NULL,
    token      uuid NOT NULL,
    outcome    consign.outcome NOT NULL CHECK (outcome <> 'expired'),
    owner      text NOT NULL,
    code       text,
    detail     text,
    result     jsonb,
    after_all  boolean NOT NULL DEFAULT false CHECK (NOT after_all OR outcome = 'delivered'),
    PRIMARY KEY (message_id, token, after_all)
);
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON consign.late
    FOR EACH STATEMENT EXECUTE FUNCTION consign.refuse_change();

-- Calls the hooks of the queues whose messages have a new late result of this token.
CREATE FUNCTION consign.call_late(p_ids bigint[], p_token uuid) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_hook record;
BEGIN
    FOR v_hook IN
        SELECT n.name, n.hooks->>'late' AS function, array_agg(m.id ORDER BY m.id) AS ids
            FROM consign.message m JOIN consign.queue n ON n.name = m.queue
            WHERE m.id = ANY (p_ids) AND n.hooks ? 'late' GROUP BY n.name ORDER BY n.name
    LOOP
        EXECUTE format('SELECT %s($1, $2, $3)', v_hook.function) USING v_hook.name, v_hook.ids, p_token;
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION consign.call_late(bigint[], uuid) FROM PUBLIC;

-- Keeps results about messages that this token held and lost: the expired attempt says so, or the
-- ended lease still lists them. The first result stands. Answers which have one on record now, in
-- the order given, so that repeating is harmless.
CREATE FUNCTION consign.witness(p_token uuid, p_ids bigint[], p_outcomes text[] DEFAULT NULL, p_codes text[] DEFAULT NULL,
                                p_details text[] DEFAULT NULL, p_results jsonb[] DEFAULT NULL)
    RETURNS bigint[]
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_lease consign.lease;
    v_now   timestamptz;
    v_kept  bigint[];
BEGIN
    PERFORM consign.check_reports(p_ids, p_outcomes, NULL, cardinality(p_outcomes), cardinality(p_codes),
                                  cardinality(p_details), cardinality(p_results));
    -- The clock is read under the lock: a renewal under way must not be mistaken for a lost lease.
    SELECT * INTO v_lease FROM consign.lease l WHERE l.token = p_token FOR SHARE;
    v_now := consign.clock();
    WITH kept AS (
        INSERT INTO consign.late (message_id, fence, at, token, outcome, owner, code, detail, result)
            SELECT r.id, h.fence, v_now, p_token, coalesce(r.outcome, 'delivered')::consign.outcome, h.owner,
                   CASE WHEN r.code = 'lease_expired' THEN 'reported_lease_expired' ELSE left(r.code, 128) END,
                   left(r.detail, 4096), r.result
                FROM unnest(p_ids, p_outcomes, p_codes, p_details, p_results) AS r (id, outcome, code, detail, result)
                JOIN (SELECT a.message_id AS id, a.fence, a.owner FROM consign.attempt a
                          WHERE a.message_id = ANY (p_ids) AND a.token = p_token AND a.code = 'lease_expired'
                      UNION ALL
                      SELECT u, v_lease.fence, v_lease.owner FROM unnest(v_lease.ids) u
                          WHERE v_lease.expires_at <= v_now) h ON h.id = r.id
            ON CONFLICT DO NOTHING
        RETURNING message_id)
    SELECT array_agg(message_id) INTO v_kept FROM kept;
    IF v_kept IS NOT NULL THEN
        PERFORM consign.call_late(v_kept, p_token);
    END IF;
    RETURN ARRAY(SELECT u.id FROM unnest(p_ids) WITH ORDINALITY AS u (id, ord)
        WHERE EXISTS (SELECT FROM consign.late l WHERE l.message_id = u.id AND l.token = p_token) ORDER BY u.ord);
END $$;
REVOKE ALL ON FUNCTION consign.witness(uuid, bigint[], text[], text[], text[], jsonb[]) FROM PUBLIC;

-- A redrive requeues the dead by filter. `cursor`: the last message it came to. `paced_at`: the time
-- up to which its rate is used up.
CREATE TABLE consign.redrive (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    state           text NOT NULL CHECK (state IN ('running', 'stopped', 'done')),
    queue            text,
    code            text,
    rate_per_second bigint CHECK (rate_per_second BETWEEN 1 AND 4294967295),
    at_most         bigint CHECK (at_most > 0),
    total           bigint NOT NULL,
    moved           bigint NOT NULL DEFAULT 0,
    skipped         bigint NOT NULL DEFAULT 0,
    cursor          bigint,
    actor           text NOT NULL,
    reason          text NOT NULL,
    started_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL,
    finished_at     timestamptz,
    paced_at        timestamptz NOT NULL
);
CREATE INDEX redrive_running ON consign.redrive (updated_at, id) WHERE state = 'running';

-- Who did what to a redrive, and why. The reason must leave room for the redrive's number.
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

-- Starts to requeue the dead messages that a queue and a code, if given, name. Nothing is moved yet.
CREATE FUNCTION consign.start_redrive(p_actor text, p_reason text, p_queue text DEFAULT NULL, p_code text DEFAULT NULL,
                                      p_rate_per_second bigint DEFAULT NULL, p_at_most bigint DEFAULT NULL)
    RETURNS consign.redrive
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_now     timestamptz := consign.clock();
    v_redrive consign.redrive;
BEGIN
    PERFORM consign.require_read_committed();
    PERFORM consign.require_reason(p_actor, p_reason);
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
        PERFORM consign.known_queue(p_queue);
    END IF;
    INSERT INTO consign.redrive (state, queue, code, rate_per_second, at_most, total, actor, reason,
                                 started_at, updated_at, paced_at)
        SELECT 'running', p_queue, p_code, p_rate_per_second, p_at_most, count(*), p_actor, p_reason, v_now, v_now, v_now
            FROM consign.dead d WHERE (p_queue IS NULL OR d.queue = p_queue) AND (p_code IS NULL OR d.code = p_code)
        RETURNING * INTO v_redrive;
    PERFORM consign.record_redrive(v_redrive, 'start_redrive', p_actor, p_reason, v_now);
    RETURN v_redrive;
END $$;
REVOKE ALL ON FUNCTION consign.start_redrive(text, text, text, text, bigint, bigint) FROM PUBLIC;

-- How many messages a redrive may requeue now: its allowance grows with its rate from the start, and
-- one second's worth of it is kept at most. The same rule as Redrive::step_len in the kernel.
CREATE FUNCTION consign.step_len(p_redrive consign.redrive, p_limit int, p_now timestamptz) RETURNS bigint
    LANGUAGE sql IMMUTABLE
    RETURN least(p_limit::bigint, p_redrive.at_most - p_redrive.moved,
                 trunc(least(greatest(extract(epoch FROM p_now - p_redrive.paced_at), 0), 1) * p_redrive.rate_per_second)::bigint);
REVOKE ALL ON FUNCTION consign.step_len(consign.redrive, int, timestamptz) FROM PUBLIC;

-- Locks the running redrive that has waited longest and may take a step; none if there is none.
--
-- One that another transaction steps is skipped: it takes one step at a time.
CREATE FUNCTION consign.lock_redrive(p_limit int) RETURNS consign.redrive
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_redrive consign.redrive;
    v_now     timestamptz;
    v_seen    bigint[] := '{}';
BEGIN
    LOOP
        v_now := consign.clock();
        SELECT * INTO v_redrive FROM consign.redrive r
            WHERE r.state = 'running' AND NOT r.id = ANY (v_seen)
                AND (consign.step_len(r, p_limit, v_now) > 0 OR r.paced_at > v_now)
            ORDER BY r.updated_at, r.id LIMIT 1 FOR UPDATE SKIP LOCKED;
        IF NOT FOUND OR consign.step_len(v_redrive, p_limit, consign.clock()) > 0 THEN
            RETURN v_redrive;
        END IF;
        -- After the clock was set back, it must not wait for the time that it showed before.
        UPDATE consign.redrive r SET paced_at = least(r.paced_at, consign.clock()) WHERE r.id = v_redrive.id;
        v_seen := v_seen || v_redrive.id;
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION consign.lock_redrive(int) FROM PUBLIC;

-- Takes the next step of a running redrive: up to p_limit messages by ascending id, within its rate.
-- No row when there is nothing to do now.
CREATE FUNCTION consign.step_redrive(p_limit int DEFAULT 100) RETURNS SETOF consign.redrive
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_redrive   consign.redrive;
    v_now       timestamptz;
    v_count     bigint;
    v_ids       bigint[];
    v_exhausted boolean;
    v_moved     bigint;
BEGIN
    PERFORM consign.require_read_committed();
    IF p_limit IS NULL OR p_limit NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'limit: must be from 1 to 1000' USING ERRCODE = 'CN006';
    END IF;
    v_redrive := consign.lock_redrive(p_limit);
    IF v_redrive.id IS NULL THEN
        RETURN;
    END IF;
    -- The clock is read under the lock: the step before this one may have used up the allowance.
    v_now := consign.clock();
    v_count := consign.step_len(v_redrive, p_limit, v_now);
    v_ids := ARRAY(SELECT d.message_id FROM consign.dead d
        WHERE d.message_id > coalesce(v_redrive.cursor, -9223372036854775808) AND d.at <= v_redrive.started_at
            AND (v_redrive.queue IS NULL OR d.queue = v_redrive.queue) AND (v_redrive.code IS NULL OR d.code = v_redrive.code)
        ORDER BY d.message_id LIMIT v_count + 1);
    v_exhausted := cardinality(v_ids) <= v_count;
    v_ids := v_ids[: v_count];
    -- What counts is what was really taken out of the dead: a person may have been quicker.
    SELECT count(*) INTO v_moved
        FROM consign.put_back(v_ids, 'requeue', v_redrive.actor,
                              format('redrive %s: %s', v_redrive.id, v_redrive.reason), v_redrive.started_at) b
        WHERE b.answer = 'moved';
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

-- Stops or resumes a redrive; one that is in another state stays as it is.
CREATE FUNCTION consign.turn_redrive(p_id bigint, p_from text, p_to text, p_action text, p_actor text, p_reason text)
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
REVOKE ALL ON FUNCTION consign.turn_redrive(bigint, text, text, text, text, text) FROM PUBLIC;

-- Stops a running redrive after the step it is in.
CREATE FUNCTION consign.stop_redrive(p_id bigint, p_actor text, p_reason text) RETURNS consign.redrive
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$ SELECT consign.turn_redrive(p_id, 'running', 'stopped', 'stop_redrive', p_actor, p_reason) $$;
REVOKE ALL ON FUNCTION consign.stop_redrive(bigint, text, text) FROM PUBLIC;

-- Lets a stopped redrive go on from where it was.
CREATE FUNCTION consign.resume_redrive(p_id bigint, p_actor text, p_reason text) RETURNS consign.redrive
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$ SELECT consign.turn_redrive(p_id, 'stopped', 'running', 'resume_redrive', p_actor, p_reason) $$;
REVOKE ALL ON FUNCTION consign.resume_redrive(bigint, text, text) FROM PUBLIC;

GRANT EXECUTE ON FUNCTION consign.witness(uuid, bigint[], text[], text[], text[], jsonb[]) TO consign_worker;
GRANT EXECUTE ON FUNCTION
    consign.resolve(bigint[], text, text, text, jsonb),
    consign.start_redrive(text, text, text, text, bigint, bigint),
    consign.step_redrive(int),
    consign.stop_redrive(bigint, text, text),
    consign.resume_redrive(bigint, text, text)
    TO consign_operator;
GRANT SELECT ON consign.redrive TO consign_auditor, consign_operator;
GRANT SELECT (message_id, fence, at, outcome, owner, code, detail, result, after_all)
    ON consign.late TO consign_auditor, consign_operator;
-- As consign.attempt_view.
CREATE VIEW consign.late_view AS
    SELECT e.message_id, e.fence, e.at,
           CASE WHEN (SELECT has_column_privilege('consign.lease', 'token', 'SELECT')) THEN e.token END AS token,
           e.outcome, e.owner, e.code, e.detail, e.result, e.after_all
        FROM consign.late e;
GRANT SELECT ON consign.late_view TO consign_auditor, consign_operator;
