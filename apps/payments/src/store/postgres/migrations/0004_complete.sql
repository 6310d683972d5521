-- Completing payments: the results of the rail, under a live lease.

CREATE TYPE consign.completion AS (message_id bigint, outbox_id uuid, ord bigint, state consign.outbox_attempt_state,
    rail_reference text, rail_code text, error_code text, error_message text, latency_ms bigint, delay interval, in_doubt boolean);

-- The rail's result as an attempt keeps it; NULL for none.
CREATE FUNCTION consign.rail_result(p_rail_reference text, p_rail_code text, p_latency_ms bigint) RETURNS jsonb
    LANGUAGE sql IMMUTABLE
    RETURN nullif(jsonb_strip_nulls(jsonb_build_object('rail_reference', CASE WHEN p_rail_reference ~ '\S' THEN p_rail_reference END,
                                                       'rail_code', CASE WHEN p_rail_code ~ '\S' THEN consign.payment_masked_code(p_rail_code) END,
                                                       'latency_ms', CASE WHEN p_latency_ms < 0 THEN 0 ELSE p_latency_ms END)), '{}');
REVOKE ALL ON FUNCTION consign.rail_result(text, text, bigint) FROM PUBLIC;

-- Whether a payment to be tried again may have reached the rail. If the completion does not state it: by its error code,
-- if it has none, and if the payment was in doubt before. Only a statement ends a doubt.
-- The same as Completion::leaves_doubt in the crate for payments.
CREATE FUNCTION consign.leaves_doubt(p_in_doubt boolean, p_error_code text, p_rail_code text, p_was_in_doubt boolean) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    RETURN coalesce(p_in_doubt, p_was_in_doubt OR btrim(p_error_code) IN ('DISPATCH_TIMEOUT', 'DISPATCH_ERROR')
                                OR coalesce(p_error_code, '') !~ '\S' AND coalesce(p_rail_code, '') !~ '\S', false);
REVOKE ALL ON FUNCTION consign.leaves_doubt(boolean, text, text, boolean) FROM PUBLIC;

-- Whether an attempt matches a completion: its state, its reference, and its doubt if stated. The same as Completion::is_recorded_as in the crate for payments.
CREATE FUNCTION consign.is_recorded_as(p_completion consign.completion, p_outcome consign.outcome, p_code text, p_result jsonb)
    RETURNS boolean
    LANGUAGE sql IMMUTABLE
    RETURN CASE (p_completion).state
            WHEN 'DISPATCHED' THEN p_outcome = 'delivered'
                OR p_outcome = 'uncertain' AND p_code IS NOT DISTINCT FROM 'MISSING_RAIL_REFERENCE'
            WHEN 'FAILED' THEN p_outcome = 'dead'
            WHEN 'RETRYABLE' THEN p_outcome = 'retry' AND (p_completion).in_doubt IS NOT TRUE
                OR p_outcome = 'uncertain' AND p_code IS DISTINCT FROM 'MISSING_RAIL_REFERENCE'
                    AND (p_completion).in_doubt IS NOT FALSE
            ELSE false END
        AND consign.rail_result((p_completion).rail_reference, NULL, NULL)->>'rail_reference'
            IS NOT DISTINCT FROM p_result->>'rail_reference';
REVOKE ALL ON FUNCTION consign.is_recorded_as(consign.completion, consign.outcome, text, jsonb) FROM PUBLIC;

-- Rejects states that cannot be reported (P7003), a failure in doubt and too long a reference (CN006) and, unless it is to be held, a
-- success without a reference (P7005).
CREATE FUNCTION consign.check_completions(p_completions consign.completion[], p_hold_unreferenced boolean) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on
    AS $$
DECLARE
    v_wrong consign.completion;
BEGIN
    SELECT (c).* INTO v_wrong FROM unnest(p_completions) c
        WHERE coalesce(c.state NOT IN ('DISPATCHED', 'FAILED', 'RETRYABLE'), true) ORDER BY c.ord LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'INVALID_COMPLETION_STATE: state % of payment % is not a completion', coalesce(v_wrong.state::text, 'NULL'), v_wrong.outbox_id
            USING ERRCODE = 'P7003', DETAIL = jsonb_build_object('outbox_id', v_wrong.outbox_id, 'state', v_wrong.state)::text,
                  HINT = 'Nothing was written. A completion is DISPATCHED, RETRYABLE or FAILED.';
    END IF;
    -- A completion that reports no answer of the rail, and no question to it since, leaves the outcome unknown.
    SELECT (c).* INTO v_wrong FROM unnest(p_completions) c
        WHERE c.state = 'FAILED' AND coalesce(c.in_doubt, btrim(c.error_code) IN ('DISPATCH_TIMEOUT', 'DISPATCH_ERROR'))
        ORDER BY c.ord LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'in_doubt: payment % cannot have failed while it is in doubt', v_wrong.outbox_id
            USING ERRCODE = 'CN006', DETAIL = jsonb_build_object('outbox_id', v_wrong.outbox_id)::text,
                  HINT = 'Nothing was written. Report RETRYABLE: the rail is queried before the payment is sent again. If the rail was queried '
                      'since and does not have it, pass p_in_doubt => false.';
    END IF;
    SELECT (c).* INTO v_wrong FROM unnest(p_completions) c WHERE octet_length(c.rail_reference) > 256 ORDER BY c.ord LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'rail_reference: must be at most 256 bytes (payment %)', v_wrong.outbox_id
            USING ERRCODE = 'CN006', DETAIL = jsonb_build_object('outbox_id', v_wrong.outbox_id, 'bytes', octet_length(v_wrong.rail_reference))::text,
                  HINT = 'Nothing was written. Report the part by which the rail finds the payment, before the lease ends.';
    END IF;
    IF NOT p_hold_unreferenced THEN
        SELECT (c).* INTO v_wrong FROM unnest(p_completions) c
            WHERE c.state = 'DISPATCHED' AND coalesce(c.rail_reference !~ '\S', true) ORDER BY c.ord LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION 'MISSING_RAIL_REFERENCE: payment % was dispatched under no reference', v_wrong.outbox_id
                USING ERRCODE = 'P7005', DETAIL = jsonb_build_object('outbox_id', v_wrong.outbox_id)::text,
                      HINT = 'Nothing was written. If the rail gave none, hold the payment with '
                          'consign.hold_outbox_attempt() before its lease ends: it would be sent again.';
        END IF;
    END IF;
END $$;
REVOKE ALL ON FUNCTION consign.check_completions(consign.completion[], boolean) FROM PUBLIC;

-- Records completions under the lease that holds them all.
CREATE FUNCTION consign.record_completions(p_lease consign.lease, p_now timestamptz, p_completions consign.completion[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on
    AS $$
BEGIN
    PERFORM consign.record(p_lease, p_now, r.ids, r.outcomes, r.codes, r.details, r.results, r.delays)
        FROM (SELECT array_agg(c.message_id ORDER BY c.ord) AS ids,
                     array_agg(CASE WHEN c.state = 'RETRYABLE' THEN
                                        CASE WHEN consign.leaves_doubt(c.in_doubt, c.error_code, c.rail_code, c.in_doubt IS NULL
                                                                           AND consign.is_in_doubt(c.message_id))
                                             THEN 'uncertain' ELSE 'retry' END
                                    WHEN c.state = 'FAILED' THEN 'dead'
                                    WHEN c.rail_reference ~ '\S' THEN 'delivered' ELSE 'uncertain' END ORDER BY c.ord) AS outcomes,
                     -- `lease_expired` is reserved for expiries.
                     array_agg(CASE WHEN c.state = 'DISPATCHED' THEN CASE WHEN c.rail_reference ~ '\S' THEN NULL
                                                                          ELSE 'MISSING_RAIL_REFERENCE' END
                                    WHEN c.error_code = 'lease_expired' THEN 'reported_lease_expired'
                                    ELSE consign.payment_masked_code(c.error_code) END ORDER BY c.ord) AS codes,
                     array_agg(consign.payment_masked(c.error_message) ORDER BY c.ord) AS details,
                     array_agg(consign.rail_result(c.rail_reference, c.rail_code, c.latency_ms) ORDER BY c.ord) AS results,
                     -- NULL stays NULL: the queue's own schedule.
                     array_agg(CASE WHEN consign.exact(c.delay) < interval '1 second' THEN interval '1 second'
                                    WHEN c.delay > interval '366 days' THEN interval '366 days' ELSE c.delay END ORDER BY c.ord) AS delays
                  FROM unnest(p_completions) c) r;
END $$;
REVOKE ALL ON FUNCTION consign.record_completions(consign.lease, timestamptz, consign.completion[]) FROM PUBLIC;

-- The usual completion: a whole lease, in its order, every payment dispatched under a reference. Answers
-- with the attempt numbers, or NULL when the case is another one and nothing was done.
CREATE FUNCTION consign.dispatch_whole(p_lease consign.lease, p_now timestamptz, p_ids bigint[],
                                       p_states consign.outbox_attempt_state[], p_rail_references text[], p_rail_codes text[],
                                       p_error_messages text[], p_latency_ms bigint[]) RETURNS int[]
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on
    AS $$
DECLARE
    v_nos int[];
BEGIN
    IF p_ids IS DISTINCT FROM p_lease.ids
        OR (SELECT (n.policy->>'ordered')::boolean FROM consign.queue n WHERE n.name = 'payments')
        OR EXISTS (SELECT FROM unnest(p_ids, p_states, p_rail_references, p_rail_codes, p_error_messages, p_latency_ms)
                       AS r (id, state, reference, rail_code, message, latency)
                       WHERE (r.id IS NOT NULL AND r.state = 'DISPATCHED' AND r.reference ~ '\S' AND octet_length(r.reference) <= 256) IS NOT TRUE)
    THEN
        RETURN NULL;
    END IF;
    DELETE FROM consign.lease l WHERE l.fence = p_lease.fence;
    v_nos := ARRAY(SELECT a + 1 FROM unnest(p_lease.attempts) a);
    INSERT INTO consign.attempt (message_id, attempt_no, outcome, owner, fence, token, claimed_at, finished_at, detail, result)
        SELECT r.id, r.no, 'delivered', p_lease.owner, p_lease.fence, p_lease.token, p_lease.claimed_at,
               greatest(p_now, p_lease.claimed_at), CASE WHEN r.message IS NOT NULL THEN consign.payment_masked(r.message) END,
               consign.rail_result(r.reference, r.rail_code, r.latency)
            FROM unnest(p_ids, v_nos, p_rail_references, p_rail_codes, p_error_messages, p_latency_ms)
                AS r (id, no, reference, rail_code, message, latency);
    RETURN v_nos;
END $$;
REVOKE ALL ON FUNCTION consign.dispatch_whole(consign.lease, timestamptz, bigint[], consign.outbox_attempt_state[], text[], text[], text[], bigint[]) FROM PUBLIC;

-- Records what became of payments, a row for each in the order given; `message_state` is the state of its message now.
--
-- A lease that is not this worker's, has ended or does not hold them all is P7002 and nothing is
-- written, except that what this token has recorded already is answered as it was: a lost reply is
-- not a lost lease. Something else than was recorded is no repetition, and refused in the same way. With
-- p_hold_unreferenced a success without a reference is recorded and held.
CREATE FUNCTION consign.complete_payments(p_lease_token uuid, p_worker_id text, p_outbox_ids uuid[],
                                          p_states consign.outbox_attempt_state[], p_rail_references text[],
                                          p_rail_codes text[], p_error_codes text[], p_error_messages text[],
                                          p_latency_ms bigint[], p_delays interval[], p_in_doubt boolean[],
                                          p_hold_unreferenced boolean)
    RETURNS TABLE (outbox_id uuid, attempt_no int, effective_state consign.outbox_attempt_state, message_state text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET jit = off
    SET plan_cache_mode = force_generic_plan
    AS $$
#variable_conflict use_column
DECLARE
    v_lease   consign.lease;
    v_now     timestamptz;
    v_ids     bigint[] := ARRAY(SELECT p.message_id FROM unnest(p_outbox_ids) WITH ORDINALITY AS u (id, ord)
                                    LEFT JOIN consign.payment p ON p.outbox_id = u.id ORDER BY u.ord);
    v_nos     int[];
    v_all     consign.completion[];
    v_open    consign.completion[];
    v_earlier bigint[] := '{}';
    v_others  uuid[];
BEGIN
    SELECT * INTO v_lease FROM consign.lease l WHERE l.token = p_lease_token AND l.owner = p_worker_id AND l.queue = 'payments'
        FOR UPDATE;
    -- The clock is read under the lock: waiting for it must not make a lost lease look live.
    v_now := consign.clock();
    IF v_lease.expires_at > v_now THEN
        v_nos := consign.dispatch_whole(v_lease, v_now, v_ids, p_states, p_rail_references, p_rail_codes, p_error_messages, p_latency_ms);
    END IF;
    IF v_nos IS NOT NULL THEN
        RETURN QUERY SELECT u.id, u.no, 'DISPATCHED'::consign.outbox_attempt_state, 'delivered' FROM unnest(p_outbox_ids, v_nos) AS u (id, no);
        RETURN;
    END IF;

    v_all := ARRAY(
        SELECT ROW(r.message_id, r.outbox_id, r.ord, r.state, r.rail_reference, r.rail_code, r.error_code, r.error_message,
                   r.latency_ms, r.delay, r.in_doubt)::consign.completion
            FROM unnest(v_ids, p_outbox_ids, p_states, p_rail_references, p_rail_codes, p_error_codes, p_error_messages,
                        p_latency_ms, p_delays, p_in_doubt)
                WITH ORDINALITY AS r (message_id, outbox_id, state, rail_reference, rail_code, error_code, error_message,
                                      latency_ms, delay, in_doubt, ord)
            ORDER BY r.ord);
    v_open := v_all;
    IF v_lease.token IS NULL OR v_lease.expires_at <= v_now OR NOT v_lease.ids @> v_ids THEN
        v_earlier := ARRAY(SELECT a.message_id FROM unnest(v_all) c JOIN consign.attempt a ON a.message_id = c.message_id
            AND a.token = p_lease_token AND a.owner = p_worker_id AND a.code IS DISTINCT FROM 'lease_expired');
        v_open := ARRAY(SELECT c FROM unnest(v_all) c WHERE coalesce(NOT c.message_id = ANY (v_earlier), true) ORDER BY c.ord);
        IF cardinality(v_open) > 0 OR cardinality(v_all) = 0 THEN
            v_lease := consign.live_payment_lease(p_lease_token, p_worker_id, p_outbox_ids);
            PERFORM consign.refuse_lost_lease(CASE WHEN c.message_id IS NULL THEN 'no_such_payment' ELSE 'not_in_lease' END,
                                              ARRAY[c.outbox_id])
                FROM unnest(v_open) c WHERE coalesce(NOT c.message_id = ANY (v_lease.ids), true) ORDER BY c.ord;
        END IF;
    END IF;
    PERFORM consign.check_reports(v_ids, NULL, NULL, coalesce(cardinality(p_outbox_ids), -1),
        cardinality(p_states), cardinality(p_rail_references), cardinality(p_rail_codes), cardinality(p_error_codes),
        cardinality(p_error_messages), cardinality(p_latency_ms), cardinality(p_delays), cardinality(p_in_doubt));
    PERFORM consign.check_completions(v_all, p_hold_unreferenced);
    v_others := ARRAY(SELECT c.outbox_id FROM unnest(v_all) c
        JOIN consign.attempt a ON a.message_id = c.message_id AND a.token = p_lease_token AND a.owner = p_worker_id
            AND a.code IS DISTINCT FROM 'lease_expired'
        WHERE c.message_id = ANY (v_earlier) AND NOT consign.is_recorded_as(c, a.outcome, a.code, a.result) ORDER BY c.ord);
    IF cardinality(v_others) > 0 THEN
        PERFORM consign.refuse_lost_lease('recorded_otherwise', v_others);
    END IF;
    IF cardinality(v_open) > 0 THEN
        PERFORM consign.record_completions(v_lease, v_now, v_open);
    END IF;
    RETURN QUERY
        SELECT c.outbox_id, a.attempt_no, consign.outbox_attempt_state(a.outcome, a.code, a.next_due_at),
               CASE WHEN c.message_id = ANY (v_earlier) THEN consign.state_of(c.message_id)
                    WHEN a.outcome = 'delivered' THEN 'delivered'
                    WHEN a.next_due_at IS NOT NULL THEN 'ready'
                    -- What is in doubt is never given up.
                    WHEN a.outcome = 'uncertain' THEN 'held'
                    ELSE 'dead' END
            FROM unnest(v_all) c
            JOIN consign.attempt a ON a.message_id = c.message_id AND a.token = p_lease_token
                AND a.code IS DISTINCT FROM 'lease_expired'
            ORDER BY c.ord;
END $$;
REVOKE ALL ON FUNCTION consign.complete_payments(uuid, text, uuid[], consign.outbox_attempt_state[], text[], text[], text[], text[], bigint[], interval[], boolean[], boolean) FROM PUBLIC;

-- Records what became of one payment. p_in_doubt, of one that is RETRYABLE: true: it is unknown whether the
-- rail has it; false: the rail was asked or has rejected it; NULL: see leaves_doubt.
CREATE FUNCTION consign.complete_outbox_attempt(p_outbox_id uuid, p_lease_token uuid, p_worker_id text,
                                                p_state consign.outbox_attempt_state, p_rail_reference text DEFAULT NULL,
                                                p_rail_code text DEFAULT NULL, p_error_code text DEFAULT NULL,
                                                p_error_message text DEFAULT NULL, p_latency_ms int DEFAULT NULL,
                                                p_retry_delay_seconds int DEFAULT 1, p_in_doubt boolean DEFAULT NULL)
    RETURNS TABLE (attempt_no int, effective_state consign.outbox_attempt_state)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    RETURN QUERY SELECT c.attempt_no, c.effective_state FROM consign.complete_payments(
        p_lease_token, p_worker_id, ARRAY[p_outbox_id], ARRAY[p_state], ARRAY[p_rail_reference], ARRAY[p_rail_code],
        ARRAY[p_error_code], ARRAY[p_error_message], ARRAY[p_latency_ms::bigint], ARRAY[make_interval(secs => p_retry_delay_seconds)],
        ARRAY[p_in_doubt], false) c;
END $$;
REVOKE ALL ON FUNCTION consign.complete_outbox_attempt(uuid, uuid, text, consign.outbox_attempt_state, text, text, text, text, int, int, boolean) FROM PUBLIC;

-- Records what became of many payments of one lease: all or none, a row for each in the order given.
CREATE FUNCTION consign.complete_outbox_attempts(p_lease_token uuid, p_worker_id text, p_outbox_ids uuid[],
                                                 p_states consign.outbox_attempt_state[], p_rail_references text[] DEFAULT NULL,
                                                 p_rail_codes text[] DEFAULT NULL, p_error_codes text[] DEFAULT NULL,
                                                 p_error_messages text[] DEFAULT NULL, p_latency_ms int[] DEFAULT NULL,
                                                 p_retry_delay_seconds int[] DEFAULT NULL, p_in_doubt boolean[] DEFAULT NULL)
    RETURNS TABLE (outbox_id uuid, attempt_no int, effective_state consign.outbox_attempt_state)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    RETURN QUERY SELECT c.outbox_id, c.attempt_no, c.effective_state FROM consign.complete_payments(
        p_lease_token, p_worker_id, p_outbox_ids, p_states, p_rail_references, p_rail_codes, p_error_codes, p_error_messages,
        p_latency_ms::bigint[], p_retry_delay_seconds::text[]::interval[], p_in_doubt, false) c;
END $$;
REVOKE ALL ON FUNCTION consign.complete_outbox_attempts(uuid, text, uuid[], consign.outbox_attempt_state[], text[], text[], text[], text[], int[], int[], boolean[]) FROM PUBLIC;

-- Holds a payment that the rail accepted without a reference, for an operator to resolve.
CREATE FUNCTION consign.hold_outbox_attempt(p_outbox_id uuid, p_lease_token uuid, p_worker_id text, p_rail_code text DEFAULT NULL,
                                            p_error_message text DEFAULT NULL, p_latency_ms int DEFAULT NULL)
    RETURNS TABLE (attempt_no int, effective_state consign.outbox_attempt_state)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    RETURN QUERY SELECT c.attempt_no, c.effective_state FROM consign.complete_payments(
        p_lease_token, p_worker_id, ARRAY[p_outbox_id], ARRAY['DISPATCHED'::consign.outbox_attempt_state], NULL, ARRAY[p_rail_code],
        NULL, ARRAY[p_error_message], ARRAY[p_latency_ms::bigint], NULL, NULL, true) c;
END $$;
REVOKE ALL ON FUNCTION consign.hold_outbox_attempt(uuid, uuid, text, text, text, int) FROM PUBLIC;

-- Records the rail's results about payments whose completion was rejected: evidence, never an outcome. A function of its
-- own, because a call rejected with P7002 writes nothing. Returns which of them are on record now.
--
-- Kept where this worker had the payment under this token and has it no more: its lease has ended, or what
-- it recorded is something else. The first result stands, except that a success is always recorded:
-- an answer may come after the worker has stopped waiting for it.
CREATE FUNCTION consign.record_late_payments(p_lease_token uuid, p_worker_id text, p_outbox_ids uuid[],
                                         p_states consign.outbox_attempt_state[], p_rail_references text[], p_rail_codes text[],
                                         p_error_codes text[], p_error_messages text[], p_latency_ms bigint[])
    RETURNS uuid[]
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET jit = off
    AS $$
DECLARE
    v_all  consign.completion[];
    v_said record;
    v_kept bigint[];
BEGIN
    v_all := ARRAY(
        SELECT ROW(p.message_id, r.outbox_id, r.ord, r.state, r.rail_reference, r.rail_code, r.error_code, r.error_message,
                   r.latency_ms, NULL, NULL)::consign.completion
            FROM unnest(p_outbox_ids, p_states, p_rail_references, p_rail_codes, p_error_codes, p_error_messages, p_latency_ms)
                WITH ORDINALITY AS r (outbox_id, state, rail_reference, rail_code, error_code, error_message, latency_ms, ord)
            LEFT JOIN consign.payment p ON p.outbox_id = r.outbox_id
            ORDER BY r.ord);
    PERFORM consign.check_reports(ARRAY(SELECT c.ord FROM unnest(v_all) c), NULL, NULL, coalesce(cardinality(p_outbox_ids), -1),
        cardinality(p_states), cardinality(p_rail_references), cardinality(p_rail_codes), cardinality(p_error_codes),
        cardinality(p_error_messages), cardinality(p_latency_ms));
    PERFORM consign.check_completions(v_all, true);
    -- Payments that this worker had: its token is in their attempts, or its lease still exists.
    SELECT array_agg(c.message_id ORDER BY c.ord) AS ids,
           array_agg(CASE c.state WHEN 'DISPATCHED' THEN 'delivered' WHEN 'FAILED' THEN 'dead' ELSE
                         CASE WHEN consign.leaves_doubt(NULL, c.error_code, c.rail_code, false) THEN 'uncertain' ELSE 'retry' END
                     END ORDER BY c.ord) AS outcomes,
           array_agg(CASE WHEN c.state = 'DISPATCHED' THEN NULL WHEN c.error_code = 'lease_expired' THEN 'reported_lease_expired'
                          ELSE consign.payment_masked_code(c.error_code) END ORDER BY c.ord) AS codes,
           array_agg(consign.payment_masked(c.error_message) ORDER BY c.ord) AS details,
           array_agg(consign.rail_result(c.rail_reference, c.rail_code, c.latency_ms) ORDER BY c.ord) AS results
        INTO v_said FROM unnest(v_all) c
        WHERE c.message_id IS NOT NULL AND EXISTS (
            SELECT FROM consign.attempt a WHERE a.message_id = c.message_id AND a.token = p_lease_token AND a.owner = p_worker_id
            UNION ALL SELECT FROM consign.lease l WHERE l.token = p_lease_token AND l.owner = p_worker_id);
    IF v_said.ids IS NULL THEN
        RETURN '{}';
    END IF;
    v_kept := consign.record_late(p_lease_token, v_said.ids, v_said.outcomes, v_said.codes, v_said.details, v_said.results);
    INSERT INTO consign.late (message_id, fence, at, token, outcome, owner, code, detail, result)
        SELECT r.id, a.fence, consign.clock(), a.token, r.outcome::consign.outcome, a.owner, r.code,
               CASE WHEN NOT EXISTS (SELECT FROM consign.erasure e WHERE e.message_id = r.id) THEN r.detail END, r.result
            FROM unnest(v_all) c
            JOIN unnest(v_said.ids, v_said.outcomes, v_said.codes, v_said.details, v_said.results)
                AS r (id, outcome, code, detail, result) ON r.id = c.message_id
            JOIN consign.attempt a ON a.message_id = c.message_id AND a.token = p_lease_token AND a.owner = p_worker_id
                AND a.code IS DISTINCT FROM 'lease_expired'
            WHERE NOT consign.is_recorded_as(c, a.outcome, a.code, a.result)
        ON CONFLICT DO NOTHING;
    INSERT INTO consign.late (message_id, fence, at, token, outcome, owner, code, detail, result, after_all)
        SELECT r.id, l.fence, consign.clock(), l.token, 'delivered', l.owner, r.code,
               CASE WHEN NOT EXISTS (SELECT FROM consign.erasure e WHERE e.message_id = r.id) THEN r.detail END, r.result, true
            FROM unnest(v_said.ids, v_said.outcomes, v_said.codes, v_said.details, v_said.results)
                AS r (id, outcome, code, detail, result)
            JOIN consign.late l ON l.message_id = r.id AND l.token = p_lease_token AND NOT l.after_all
            WHERE r.outcome = 'delivered' AND l.outcome <> 'delivered' AND NOT EXISTS (
                SELECT FROM consign.attempt a WHERE a.message_id = r.id AND a.token = p_lease_token AND a.outcome = 'delivered'
                    AND a.result->>'rail_reference' = r.result->>'rail_reference')
        ON CONFLICT DO NOTHING;
    RETURN ARRAY(SELECT c.outbox_id FROM unnest(v_all) c
        WHERE c.message_id = ANY (v_kept) OR EXISTS (
            SELECT FROM consign.attempt a WHERE a.message_id = c.message_id AND a.token = p_lease_token AND a.owner = p_worker_id
                AND a.code IS DISTINCT FROM 'lease_expired')
        ORDER BY c.ord);
END $$;
REVOKE ALL ON FUNCTION consign.record_late_payments(uuid, text, uuid[], consign.outbox_attempt_state[], text[], text[], text[], text[], bigint[]) FROM PUBLIC;

-- The same for one payment; answers whether it is on record now.
CREATE FUNCTION consign.record_late_outbox_attempt(p_outbox_id uuid, p_lease_token uuid, p_worker_id text,
                                               p_state consign.outbox_attempt_state, p_rail_reference text DEFAULT NULL,
                                               p_rail_code text DEFAULT NULL, p_error_code text DEFAULT NULL,
                                               p_error_message text DEFAULT NULL, p_latency_ms int DEFAULT NULL)
    RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    RETURN cardinality(consign.record_late_payments(
        p_lease_token, p_worker_id, ARRAY[p_outbox_id], ARRAY[p_state], ARRAY[p_rail_reference], ARRAY[p_rail_code],
        ARRAY[p_error_code], ARRAY[p_error_message], ARRAY[p_latency_ms::bigint])) = 1;
END $$;
REVOKE ALL ON FUNCTION consign.record_late_outbox_attempt(uuid, uuid, text, consign.outbox_attempt_state, text, text, text, text, int) FROM PUBLIC;
