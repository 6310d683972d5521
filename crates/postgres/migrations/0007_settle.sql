-- Settling: outcomes under a live lease, fenced, in one transaction; and late results.

-- What a token's owner recorded about messages; not what an expiry recorded. In PL/pgSQL, which keeps its plans: planning
-- over many ranges takes longer than everything else.
-- Volatile, so that its snapshot is taken after its locks: that of the caller may be from before a range was replaced.
CREATE FUNCTION consign.recorded(p_token uuid, p_ids bigint[], p_fresh boolean)
    RETURNS TABLE (id bigint, attempt_no int, outcome text, next_due_at timestamptz, state text, repeated boolean)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET jit = off
    SET plan_cache_mode = force_generic_plan
    AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        SELECT a.message_id, a.attempt_no, a.outcome::text, a.next_due_at, consign.state_of(a.message_id), NOT p_fresh
            FROM unnest(p_ids) WITH ORDINALITY AS u (id, ord)
            JOIN consign.attempt a ON a.message_id = u.id AND a.token = p_token
                AND a.code IS DISTINCT FROM 'lease_expired'
                AND a.message_id BETWEEN consign.least_id(p_ids) AND consign.greatest_id(p_ids)
            ORDER BY u.ord;
END $$;
REVOKE ALL ON FUNCTION consign.recorded(uuid, bigint[], boolean) FROM PUBLIC;

-- Removes messages from a lease; an empty lease ends.
CREATE FUNCTION consign.shrink_lease(p_lease consign.lease, p_ids bigint[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_rest record;
BEGIN
    SELECT array_agg(id ORDER BY ord) AS ids, array_agg(e.tries ORDER BY ord) AS tries,
           array_agg(e.attempts ORDER BY ord) AS attempts
        INTO v_rest
        FROM unnest(p_lease.ids, p_lease.tries, p_lease.attempts) WITH ORDINALITY AS e (id, tries, attempts, ord)
        WHERE NOT EXISTS (SELECT FROM unnest(p_ids) gone WHERE gone = e.id);
    -- Only an empty lease is deleted, whatever p_ids holds.
    IF v_rest.ids IS NULL THEN
        DELETE FROM consign.lease WHERE fence = p_lease.fence;
    ELSIF cardinality(v_rest.ids) < cardinality(p_lease.ids) THEN
        UPDATE consign.lease l
            SET ids = v_rest.ids, tries = v_rest.tries, attempts = v_rest.attempts,
                begun = ARRAY(SELECT b FROM unnest(l.begun) b WHERE b = ANY (v_rest.ids))
            WHERE l.fence = p_lease.fence;
    END IF;
END $$;
REVOKE ALL ON FUNCTION consign.shrink_lease(consign.lease, bigint[]) FROM PUBLIC;

-- Appends the attempts of a settle, moves every message to its next table, shrinks the lease. The decision is that of
-- after_settle in the kernel.
CREATE FUNCTION consign.record(p_lease consign.lease, p_now timestamptz, p_ids bigint[], p_outcomes text[],
                               p_codes text[], p_details text[], p_results jsonb[], p_delays interval[])
    RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    SET enable_hashjoin = on SET enable_seqscan = off SET jit = off
    AS $$
DECLARE
    v_queue    consign.queue := consign.known_queue(p_lease.queue);
    v_policy   jsonb := v_queue.policy;
    v_finished bigint[];
    v_died     boolean;
BEGIN
    WITH report AS (
        SELECT r.*, e.tries + (r.outcome IN ('delivered', 'dead') OR r.code IS DISTINCT FROM 'misdirected')::int AS tries,
               e.tries + 1 AS tried, e.attempts + 1 AS attempts,
               CASE WHEN r.outcome IN ('delivered', 'dead') THEN r.outcome
                    WHEN r.code = 'misdirected' THEN 'ready'
                    WHEN r.outcome = 'uncertain' AND (v_policy->>'on_uncertain' = 'hold' OR v_policy->'hold_codes' ? r.code)
                        THEN 'held'
                    -- No further try follows. Dead would mean that no earlier one arrived.
                    WHEN r.outcome = 'uncertain' AND r.code = 'expired_before_delivery'
                        THEN CASE v_policy->>'on_uncertain' WHEN 'resend' THEN 'dead' ELSE 'held' END
                    WHEN e.tries + 1 < (v_policy->>'attempts_max')::int THEN 'ready'
                    WHEN r.outcome = 'uncertain' AND v_policy->>'on_uncertain' = 'probe' THEN 'held'
                    ELSE 'dead' END AS next
            FROM unnest(p_ids, p_outcomes, p_codes, p_details, p_results, p_delays)
                WITH ORDINALITY AS r (id, outcome, code, detail, result, delay, ord)
            JOIN unnest(p_lease.ids, p_lease.tries, p_lease.attempts) AS e (id, tries, attempts) ON e.id = r.id),
    fate AS MATERIALIZED (
        SELECT *, CASE WHEN next = 'ready' THEN
                p_now + coalesce(delay, consign.retry_delay(v_policy->'retry', tried, random())) END AS due_at
            FROM report),
    recorded AS (
        INSERT INTO consign.attempt (message_id, attempt_no, outcome, owner, fence, token, claimed_at, finished_at,
                                     code, detail, result, next_due_at)
        SELECT id, attempts, outcome::consign.outcome, p_lease.owner, p_lease.fence, p_lease.token, p_lease.claimed_at,
               greatest(p_now, p_lease.claimed_at), code, detail, result, due_at
            FROM fate ORDER BY ord),
    died AS (
        INSERT INTO consign.dead (message_id, queue, at, attempt_no, code, detail)
        SELECT id, p_lease.queue, p_now, attempts,
               coalesce(code, CASE WHEN outcome = 'dead' THEN 'dead' ELSE 'attempts_exhausted' END), detail
            FROM fate WHERE next = 'dead'),
    held AS (
        INSERT INTO consign.held (message_id, queue, at, reason, tries, attempts)
        SELECT id, p_lease.queue, p_now, CASE WHEN code = 'expired_before_delivery' OR v_policy->'hold_codes' ? code THEN code ELSE 'uncertain' END, tries, attempts
            FROM fate WHERE next = 'held'),
    returned AS (
        -- One batch per due time, of at most 200 messages.
        INSERT INTO consign.ready (queue, due_at, isolated, bytes, ids, tries, attempts)
        SELECT p_lease.queue, due_at, false, p_lease.bytes, array_agg(id ORDER BY ord), array_agg(tries ORDER BY ord),
               array_agg(attempts ORDER BY ord)
            FROM (SELECT *, (row_number() OVER (PARTITION BY due_at ORDER BY ord) - 1) / 200 AS part
                      FROM fate WHERE next = 'ready') back
            GROUP BY due_at, part ORDER BY due_at, part)
    SELECT array_agg(id ORDER BY ord) FILTER (WHERE next = 'delivered' OR v_policy->>'on_dead' = 'continue'), bool_or(next = 'dead')
        INTO v_finished, v_died FROM fate WHERE next IN ('delivered', 'dead');

    IF v_died AND v_policy->>'alert_queue' IS NOT NULL THEN
        PERFORM consign.record_deaths(p_ids, p_now);
    END IF;

    PERFORM consign.shrink_lease(p_lease, p_ids);
    IF (v_policy->>'ordered')::boolean THEN
        PERFORM consign.promote_after(p_lease.queue, v_finished, p_now);
    END IF;
    IF v_queue.hooks ? 'settled' THEN
        EXECUTE format('SELECT %s($1, $2, $3)', v_queue.hooks->>'settled') USING p_lease.queue, p_ids, p_lease.fence;
    END IF;
END $$;
REVOKE ALL ON FUNCTION consign.record(consign.lease, timestamptz, bigint[], text[], text[], text[], jsonb[], interval[]) FROM PUBLIC;

-- Whether an earlier delivery of a message may have happened: the last attempt that reached the sink, or may have, ended
-- without a known result; or a late result reports a delivery.
CREATE FUNCTION consign.is_in_doubt(p_id bigint) RETURNS boolean
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    RETURN coalesce((SELECT a.outcome IN ('uncertain', 'expired') FROM consign.attempt a
                         WHERE a.message_id = p_id AND (a.outcome <> 'expired' OR a.result @> '{"may_have_begun": true}')
                         ORDER BY a.attempt_no DESC LIMIT 1), false)
        OR EXISTS (SELECT FROM consign.late l WHERE l.message_id = p_id AND l.outcome = 'delivered');
END $$;
REVOKE ALL ON FUNCTION consign.is_in_doubt(bigint) FROM PUBLIC;

-- Settles the messages of a fresh lease whose time had passed when it was taken: dead, or uncertain where an earlier attempt
-- may have arrived. Returns the lease with the others; NULLs if there are none.
CREATE FUNCTION consign.settle_expired(p_lease consign.lease) RETURNS consign.lease
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_ids   bigint[] := ARRAY(
        SELECT e.id FROM unnest(p_lease.ids) WITH ORDINALITY AS e (id, ord)
            JOIN consign.message m ON m.id = e.id AND m.id BETWEEN consign.least_id(p_lease.ids) AND consign.greatest_id(p_lease.ids)
            WHERE m.expires_at <= p_lease.claimed_at ORDER BY e.ord);
    v_lease consign.lease;
BEGIN
    IF cardinality(v_ids) > 0 THEN
        PERFORM consign.record(
            p_lease, p_lease.claimed_at, v_ids,
            ARRAY(SELECT CASE WHEN consign.is_in_doubt(e.id) THEN 'uncertain' ELSE 'dead' END
                      FROM unnest(v_ids) WITH ORDINALITY AS e (id, ord) ORDER BY e.ord),
            array_fill('expired_before_delivery'::text, ARRAY[cardinality(v_ids)]), NULL, NULL, NULL);
    END IF;
    SELECT * INTO v_lease FROM consign.lease WHERE fence = p_lease.fence;
    RETURN v_lease;
END $$;
REVOKE ALL ON FUNCTION consign.settle_expired(consign.lease) FROM PUBLIC;

-- Rejects reports with null or repeated ids, unknown outcomes, negative delays, or arrays of different lengths.
CREATE FUNCTION consign.check_reports(p_ids bigint[], p_outcomes text[], p_delays interval[], VARIADIC p_lengths int[])
    RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_twice bigint;
BEGIN
    IF p_ids IS NULL OR array_position(p_ids, NULL) IS NOT NULL
        OR EXISTS (SELECT FROM unnest(p_lengths) n WHERE n <> cardinality(p_ids))
    THEN
        RAISE EXCEPTION 'reports: ids must not be null, and every other array must be NULL or as long as ids'
            USING ERRCODE = 'CN006';
    END IF;
    SELECT u INTO v_twice FROM unnest(p_ids) u GROUP BY u HAVING count(*) > 1 LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'reports: message % is reported twice', v_twice USING ERRCODE = 'CN006';
    END IF;
    IF EXISTS (SELECT FROM unnest(p_outcomes) o
                   WHERE o IS NULL OR o NOT IN ('delivered', 'retry', 'dead', 'uncertain'))
    THEN
        RAISE EXCEPTION 'outcomes: one of delivered, retry, dead, uncertain for each message' USING ERRCODE = 'CN006';
    END IF;
    IF EXISTS (SELECT FROM unnest(p_delays) d WHERE consign.exact(d) < interval '0') THEN
        RAISE EXCEPTION 'delays: must not be negative' USING ERRCODE = 'CN006';
    END IF;
END $$;
REVOKE ALL ON FUNCTION consign.check_reports(bigint[], text[], interval[], int[]) FROM PUBLIC;

-- The usual settle: a whole lease, all delivered, no order and no hook. Returns the attempt numbers, or NULL if it is
-- another case and nothing was done.
CREATE FUNCTION consign.settle_whole(p_token uuid, p_ids bigint[]) RETURNS int[]
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_lease consign.lease;
    v_now   timestamptz;
    v_nos   int[];
BEGIN
    DELETE FROM consign.lease l
        WHERE l.token = p_token AND l.ids = p_ids AND l.expires_at > consign.clock()
            AND (SELECT NOT ((n.policy->>'ordered')::boolean OR n.hooks ? 'settled') FROM consign.queue n WHERE n.name = l.queue)
        RETURNING * INTO v_lease;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    -- The clock is read under the lock: waiting for it must not make a lost lease look live. PostgreSQL does not evaluate
    -- the condition above again after waiting for a transaction that left the row as it was.
    v_now := consign.clock();
    IF v_lease.expires_at <= v_now THEN
        RAISE EXCEPTION 'lease lost: it expired before its outcomes could be recorded'
            USING ERRCODE = 'CN003', HINT = 'Nothing was written. Stop working on these messages; claim again.';
    END IF;
    v_now := greatest(v_now, v_lease.claimed_at);
    v_nos := ARRAY(SELECT a + 1 FROM unnest(v_lease.attempts) a);
    INSERT INTO consign.attempt (message_id, attempt_no, outcome, owner, fence, token, claimed_at, finished_at)
        SELECT e.id, e.no, 'delivered', v_lease.owner, v_lease.fence, v_lease.token, v_lease.claimed_at, v_now
            FROM unnest(v_lease.ids, v_nos) AS e (id, no);
    RETURN v_nos;
END $$;
REVOKE ALL ON FUNCTION consign.settle_whole(uuid, bigint[]) FROM PUBLIC;

-- Records outcomes under a live lease, a row per report in the order given.
--
-- Without p_outcomes all were delivered. p_delays override the queue's retry schedule where not null. An unknown token or
-- an expired lease is CN003 and nothing is written; a settle repeated after its reply was lost returns what was recorded
-- (`repeated`), because a lost reply is not a lost lease.
CREATE FUNCTION consign.settle(p_token uuid, p_ids bigint[], p_outcomes text[] DEFAULT NULL, p_codes text[] DEFAULT NULL,
                               p_details text[] DEFAULT NULL, p_results jsonb[] DEFAULT NULL,
                               p_delays interval[] DEFAULT NULL)
    RETURNS TABLE (id bigint, attempt_no int, outcome text, next_due_at timestamptz, state text, repeated boolean)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET jit = off
    SET plan_cache_mode = force_generic_plan
    AS $$
#variable_conflict use_column
DECLARE
    v_lease   consign.lease;
    v_now     timestamptz;
    v_earlier bigint[];
    v_nos     int[];
BEGIN
    IF num_nonnulls(p_outcomes, p_codes, p_details, p_results, p_delays) = 0 THEN
        v_nos := consign.settle_whole(p_token, p_ids);
        IF v_nos IS NOT NULL THEN
            RETURN QUERY SELECT e.id, e.no, 'delivered', NULL::timestamptz, 'delivered', false
                FROM unnest(p_ids, v_nos) AS e (id, no);
            RETURN;
        END IF;
    END IF;

    SELECT * INTO v_lease FROM consign.lease l WHERE l.token = p_token FOR UPDATE;
    -- The clock is read under the lock: waiting for it must not make a lost lease look live.
    v_now := consign.clock();
    PERFORM consign.check_reports(p_ids, p_outcomes, p_delays, cardinality(p_outcomes), cardinality(p_codes),
                                  cardinality(p_details), cardinality(p_results), cardinality(p_delays));
    IF v_lease.token IS NULL OR v_lease.expires_at <= v_now OR NOT v_lease.ids @> p_ids THEN
        v_earlier := ARRAY(SELECT r.id FROM consign.recorded(p_token, p_ids, false) r);
        IF cardinality(v_earlier) > 0 AND cardinality(v_earlier) = cardinality(p_ids) THEN
            RETURN QUERY SELECT * FROM consign.recorded(p_token, p_ids, false);
            RETURN;
        END IF;
        PERFORM consign.require_current_ranges(p_ids);
        v_lease := consign.live_lease(p_token);
        PERFORM consign.require_in_lease(v_lease, ARRAY(SELECT u FROM unnest(p_ids) u WHERE NOT u = ANY (v_earlier)));
    END IF;
    PERFORM consign.record(v_lease, v_now, f.ids, f.outcomes, f.codes, f.details, f.results, f.delays)
        FROM (SELECT array_agg(r.id ORDER BY ord) AS ids, array_agg(coalesce(r.outcome, 'delivered') ORDER BY ord) AS outcomes,
                     -- `lease_expired` is reserved for expiries; long text is truncated.
                     array_agg(CASE WHEN r.code = 'lease_expired' THEN 'reported_lease_expired' ELSE left(r.code, 128) END
                               ORDER BY ord) AS codes,
                     array_agg(left(r.detail, 4096) ORDER BY ord) AS details,
                     array_agg(r.result ORDER BY ord) AS results,
                     -- A sink may ask for any delay.
                     array_agg(CASE WHEN r.delay > interval '366 days' THEN interval '366 days' ELSE r.delay END ORDER BY ord) AS delays
                  FROM unnest(p_ids, p_outcomes, p_codes, p_details, p_results, p_delays)
                      WITH ORDINALITY AS r (id, outcome, code, detail, result, delay, ord)
                  WHERE v_earlier IS NULL OR NOT r.id = ANY (v_earlier)) f
        WHERE f.ids IS NOT NULL;
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        -- The groups of these messages, and what a hook read of them.
        PERFORM consign.require_current_ranges(p_ids);
    END IF;
    RETURN QUERY SELECT * FROM consign.recorded(p_token, p_ids, true);
END $$;
REVOKE ALL ON FUNCTION consign.settle(uuid, bigint[], text[], text[], text[], jsonb[], interval[]) FROM PUBLIC;

-- consign.settle as one row, in the order of the reports; see claim_packed. Outcomes, due times and states are NULL if
-- all were delivered, which is the usual case.
CREATE FUNCTION consign.settle_packed(p_token uuid, p_ids bigint[], p_outcomes text[], p_codes text[], p_details text[],
                                      p_results jsonb[], p_delays interval[],
                                      OUT repeated boolean, OUT ids bigint[], OUT attempt_nos int[], OUT outcomes text[],
                                      OUT next_due_at timestamptz[], OUT states text[])
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET jit = off
    SET plan_cache_mode = force_generic_plan
    AS $$
#variable_conflict use_column
BEGIN
    IF num_nonnulls(p_outcomes, p_codes, p_details, p_results, p_delays) = 0 THEN
        attempt_nos := consign.settle_whole(p_token, p_ids);
        IF attempt_nos IS NOT NULL THEN
            repeated := false;
            ids := p_ids;
            RETURN;
        END IF;
    END IF;
    SELECT bool_and(s.repeated), array_agg(s.id), array_agg(s.attempt_no),
           CASE WHEN bool_or(s.outcome <> 'delivered') THEN array_agg(s.outcome) END,
           CASE WHEN bool_or(s.outcome <> 'delivered') THEN array_agg(s.next_due_at) END,
           CASE WHEN bool_or(s.outcome <> 'delivered') THEN array_agg(s.state) END
        INTO repeated, ids, attempt_nos, outcomes, next_due_at, states
        FROM consign.settle(p_token, p_ids, p_outcomes, p_codes, p_details, p_results, p_delays) s;
END $$;
REVOKE ALL ON FUNCTION consign.settle_packed(uuid, bigint[], text[], text[], text[], jsonb[], interval[]) FROM PUBLIC;

-- Records results about messages that this token held and lost: an expired attempt has the token, or the ended lease
-- still lists them. The first result stands. Returns which messages have a result on record now, in the order given, so
-- that repeating is harmless. Of an erased message no detail is kept, and of the result what its app keeps.
CREATE FUNCTION consign.record_late(p_token uuid, p_ids bigint[], p_outcomes text[] DEFAULT NULL, p_codes text[] DEFAULT NULL,
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
    -- An erasure locks the messages too, in this order: it removes what is recorded here, or is seen below.
    PERFORM FROM consign.message m WHERE m.id = ANY (p_ids) AND m.id BETWEEN consign.least_id(p_ids) AND consign.greatest_id(p_ids)
        ORDER BY m.queue, m."group", m.id FOR SHARE;
    -- The clock is read under the lock: a renewal under way must not look like a lost lease.
    SELECT * INTO v_lease FROM consign.lease l WHERE l.token = p_token FOR SHARE;
    v_now := consign.clock();
    WITH kept AS (
        INSERT INTO consign.late (message_id, fence, at, token, outcome, owner, code, detail, result)
            SELECT r.id, h.fence, v_now, p_token, coalesce(r.outcome, 'delivered')::consign.outcome, h.owner,
                   CASE WHEN r.code = 'lease_expired' THEN 'reported_lease_expired' ELSE left(r.code, 128) END,
                   CASE WHEN e.message_id IS NULL THEN left(r.detail, 4096) END,
                   CASE WHEN e.message_id IS NULL THEN r.result ELSE consign.kept(e.queue, r.result) END
                FROM unnest(p_ids, p_outcomes, p_codes, p_details, p_results) AS r (id, outcome, code, detail, result)
                JOIN (SELECT a.message_id AS id, a.fence, a.owner FROM consign.attempt a
                          WHERE a.message_id = ANY (p_ids) AND a.message_id BETWEEN consign.least_id(p_ids) AND consign.greatest_id(p_ids)
                              AND a.token = p_token AND a.code = 'lease_expired'
                      UNION ALL
                      SELECT u, v_lease.fence, v_lease.owner FROM unnest(v_lease.ids) u
                          WHERE v_lease.expires_at <= v_now) h ON h.id = r.id
                LEFT JOIN consign.erasure e ON e.message_id = r.id
            ON CONFLICT DO NOTHING
        RETURNING message_id)
    SELECT array_agg(message_id) INTO v_kept FROM kept;
    IF v_kept IS NOT NULL THEN
        PERFORM consign.call_hooks('late', v_kept, p_token);
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        -- The attempts that say what the token held.
        PERFORM consign.require_current_ranges(p_ids);
    END IF;
    RETURN ARRAY(SELECT u.id FROM unnest(p_ids) WITH ORDINALITY AS u (id, ord)
        WHERE EXISTS (SELECT FROM consign.late l WHERE l.message_id = u.id AND l.token = p_token
                          AND l.message_id BETWEEN consign.least_id(p_ids) AND consign.greatest_id(p_ids)) ORDER BY u.ord);
END $$;
REVOKE ALL ON FUNCTION consign.record_late(uuid, bigint[], text[], text[], text[], jsonb[]) FROM PUBLIC;
