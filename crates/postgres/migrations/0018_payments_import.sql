-- Taking over the tables of the design that deleted on claim, where an attempt in the state DISPATCHING
-- stood for a lease. Nothing there would ever send again what was in flight when its relayers stopped.

-- What the former tables say about each payment, and what is to be done with it. `attempts` are its
-- outcomes, first to last; `action` is one of
--   already_here, refused (`detail` says why), finished, pending,
--   requeued_dispatching  in flight when the relayers stopped: the rail may have heard of it
--   requeued_retryable    to be tried again, but nobody would have
CREATE TYPE consign.former_payment AS (outbox_id uuid, instruction_id text, participant_id text, sequence_id bigint,
    idempotency_key text, rail_type text, payload jsonb, tenant_id uuid, correlation_id uuid, created_at timestamptz,
    next_attempt_at timestamptz, attempts jsonb, last_state text, action text, detail text);

-- Not for roles: it reads tables of somebody else's, whose columns may be of types with code of their own.
CREATE FUNCTION consign.former_payments(p_schema text) RETURNS SETOF consign.former_payment
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    -- Rows as documents: columns that some version of the tables lacked are simply not there.
    RETURN QUERY EXECUTE format($query$
        WITH pending AS (SELECT (p.outbox_id)::uuid AS outbox_id, to_jsonb(p) AS row FROM %1$I.payment_outbox_pending p),
        attempt AS (SELECT (a.outbox_id)::uuid AS outbox_id, (a.attempt_no)::int AS attempt_no, to_jsonb(a) AS row
                        FROM %1$I.payment_outbox_attempts a),
        paid AS (SELECT outbox_id, min(attempt_no) AS attempt_no FROM attempt WHERE row->>'state' = 'DISPATCHED' GROUP BY outbox_id),
        history AS (
            -- What was tried after the rail had it stays where it is.
            SELECT a.outbox_id, (array_agg(a.row ORDER BY a.attempt_no DESC))[1] AS last, min(a.row->>'created_at') AS first_at,
                   jsonb_agg(a.row ORDER BY a.attempt_no) FILTER (WHERE a.row->>'state' <> 'DISPATCHING') AS outcomes
                FROM attempt a LEFT JOIN paid p ON p.outbox_id = a.outbox_id
                WHERE p.outbox_id IS NULL OR a.attempt_no <= p.attempt_no GROUP BY a.outbox_id),
        source AS (
            SELECT coalesce(p.outbox_id, h.outbox_id) AS outbox_id, coalesce(p.row, h.last) AS row, p.row AS pending, h.last,
                   coalesce(h.outcomes, '[]') AS outcomes, coalesce(p.row->>'created_at', h.first_at)::timestamptz AS created_at
                FROM pending p FULL JOIN history h ON h.outbox_id = p.outbox_id),
        judged AS (
            SELECT s.*, count(*) OVER (PARTITION BY s.row->>'instruction_id', s.row->>'idempotency_key') > 1 AS key_twice,
                   count(*) OVER (PARTITION BY s.row->>'participant_id', s.row->>'sequence_id') > 1 AS sequence_twice
                FROM source s)
        SELECT j.outbox_id, j.row->>'instruction_id', j.row->>'participant_id', (j.row->>'sequence_id')::bigint,
               j.row->>'idempotency_key', j.row->>'rail_type', j.row->'payload', (j.row->>'tenant_id')::uuid,
               (j.row->>'correlation_id')::uuid, j.created_at, (j.pending->>'next_attempt_at')::timestamptz, j.outcomes,
               j.last->>'state',
               CASE WHEN here.outbox_id IS NOT NULL THEN 'already_here'
                    WHEN wrong.detail IS NOT NULL THEN 'refused'
                    WHEN j.last->>'state' IN ('DISPATCHED', 'FAILED') THEN 'finished'
                    WHEN j.last->>'state' = 'DISPATCHING' OR j.pending->>'lease_token' IS NOT NULL THEN 'requeued_dispatching'
                    WHEN j.pending IS NOT NULL THEN 'pending'
                    ELSE 'requeued_retryable' END,
               CASE WHEN here.outbox_id IS NULL THEN wrong.detail END
            FROM judged j
            LEFT JOIN consign.payment here ON here.outbox_id = j.outbox_id,
            LATERAL (SELECT CASE
                WHEN j.key_twice THEN 'its instruction and key name two payments there'
                WHEN j.sequence_twice THEN 'its participant has its number twice there'
                WHEN jsonb_typeof(j.row->'payload') IS DISTINCT FROM 'object' THEN 'its payload is no object'
                WHEN coalesce((j.row->>'sequence_id')::bigint < 1, true) THEN 'its number is below 1'
                WHEN EXISTS (SELECT FROM unnest(ARRAY['instruction_id', 'idempotency_key', 'participant_id', 'rail_type']) f
                                 WHERE coalesce(j.row->>f !~ '\S' OR octet_length(j.row->>f) > 256, true))
                    THEN 'instruction, key, participant and rail type must be 1 to 256 bytes'
                WHEN EXISTS (SELECT FROM consign.payment p WHERE p.instruction_id = j.row->>'instruction_id'
                                 AND p.idempotency_key = j.row->>'idempotency_key') THEN 'its instruction and key name another payment here'
                WHEN EXISTS (SELECT FROM consign.payment p WHERE p.participant_id = j.row->>'participant_id'
                                 AND p.sequence_id = (j.row->>'sequence_id')::bigint) THEN 'its participant has its number here already'
                END AS detail) wrong
            -- Within a participant by number; the running maximum keeps to time where it can.
            ORDER BY max(j.created_at) OVER (PARTITION BY j.row->>'participant_id' ORDER BY (j.row->>'sequence_id')::bigint),
                     (j.row->>'sequence_id')::bigint, j.outbox_id
        $query$, p_schema);
END $$;
REVOKE ALL ON FUNCTION consign.former_payments(text) FROM PUBLIC;

-- Writes the message, the payment and the history of one former payment; answers with the message, how
-- many attempts it has and how many of them count.
CREATE FUNCTION consign.take_over_payment(p_former consign.former_payment, p_fence bigint, p_token uuid, p_now timestamptz,
                                          OUT id bigint, OUT attempts int, OUT tries int)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    id := nextval('consign.message_id_seq');
    INSERT INTO consign.payment (outbox_id, message_id, sequence_id, created_at, tenant_id, correlation_id, instruction_id,
                                 idempotency_key, participant_id, rail_type)
        VALUES (p_former.outbox_id, id, p_former.sequence_id, p_former.created_at, p_former.tenant_id, p_former.correlation_id,
                p_former.instruction_id, p_former.idempotency_key, p_former.participant_id, p_former.rail_type);
    INSERT INTO consign.message (id, created_at, lane, key, "group", payload, headers)
        VALUES (id, p_former.created_at, 'payments', p_former.outbox_id::text, p_former.participant_id,
                jsonb_build_object('outbox_id', p_former.outbox_id, 'instruction_id', p_former.instruction_id,
                    'idempotency_key', p_former.idempotency_key, 'participant_id', p_former.participant_id,
                    'sequence_id', p_former.sequence_id, 'rail_type', p_former.rail_type, 'tenant_id', p_former.tenant_id,
                    'correlation_id', p_former.correlation_id, 'payload', p_former.payload), '{}');
    -- A zombie's dispatch may have been heard: in doubt until the rail was asked.
    INSERT INTO consign.attempt (message_id, attempt_no, outcome, owner, fence, token, claimed_at, finished_at, code, detail, result,
                                 next_due_at)
        SELECT take_over_payment.id, o.ord,
               CASE o.row->>'state' WHEN 'DISPATCHED' THEN 'delivered' WHEN 'FAILED' THEN 'dead' WHEN 'RETRYABLE' THEN 'retry'
                    ELSE 'uncertain' END::consign.outcome,
               coalesce(o.row->>'worker_id', 'import'), p_fence, p_token, coalesce(o.row->>'claimed_at', o.row->>'created_at')::timestamptz,
               greatest(coalesce(o.row->>'completed_at', o.row->>'created_at', o.row->>'claimed_at')::timestamptz,
                        (o.row->>'claimed_at')::timestamptz),
               CASE o.row->>'state' WHEN 'DISPATCHED' THEN NULL WHEN 'ZOMBIE_REQUEUE' THEN 'lease_expired'
                    ELSE left(o.row->>'error_code', 128) END,
               consign.masked(o.row->>'error_message'),
               consign.rail_result(o.row->>'rail_reference', o.row->>'rail_code', (o.row->>'latency_ms')::bigint),
               CASE WHEN o.row->>'state' NOT IN ('DISPATCHED', 'FAILED')
                    THEN coalesce(o.row->>'completed_at', o.row->>'created_at', o.row->>'claimed_at')::timestamptz END
            FROM jsonb_array_elements(p_former.attempts) WITH ORDINALITY AS o (row, ord);
    attempts := jsonb_array_length(p_former.attempts);
    tries := attempts;
    IF p_former.action IN ('requeued_dispatching', 'requeued_retryable') THEN
        attempts := attempts + 1;
        INSERT INTO consign.attempt (message_id, attempt_no, outcome, owner, fence, token, claimed_at, finished_at, code, next_due_at)
            VALUES (id, attempts, CASE p_former.action WHEN 'requeued_dispatching' THEN 'uncertain' ELSE 'expired' END::consign.outcome,
                    'import', p_fence, p_token, p_now, p_now, 'lease_expired', p_now);
    END IF;
END $$;
REVOKE ALL ON FUNCTION consign.take_over_payment(consign.former_payment, bigint, uuid, timestamptz) FROM PUBLIC;

-- Takes over the tables payment_outbox_pending and payment_outbox_attempts of a schema, or says what it
-- would do: a row for each payment there. Repeating it takes over what is new. Stop the relayers first;
-- the tables are locked against writing meanwhile, and not changed.
CREATE FUNCTION consign.import_payment_outbox(p_schema text, p_dry_run boolean DEFAULT true)
    RETURNS TABLE (outbox_id uuid, action text, detail text)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
#variable_conflict use_column
DECLARE
    v_now     timestamptz := consign.clock();
    v_fence   bigint := nextval(pg_get_serial_sequence('consign.lease', 'fence'));
    v_token   uuid := gen_random_uuid();
    v_former  consign.former_payment;
    v_taken   record;
    v_message consign.message;
    v_tries   int := ((consign.payments_policy())->>'attempts_max')::int - 1;
    v_due     bigint[] := '{}';
    v_counts  int[] := '{}';
    v_nos     int[] := '{}';
BEGIN
    PERFORM consign.require_read_committed();
    IF (SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = p_schema
            AND c.relkind IN ('r', 'p') AND c.relname IN ('payment_outbox_pending', 'payment_outbox_attempts')) < 2
    THEN
        RAISE EXCEPTION 'schema %: has no tables payment_outbox_pending and payment_outbox_attempts', quote_nullable(p_schema)
            USING ERRCODE = 'CN006';
    END IF;
    EXECUTE format('LOCK TABLE %1$I.payment_outbox_pending, %1$I.payment_outbox_attempts IN SHARE MODE', p_schema);
    IF NOT p_dry_run THEN
        PERFORM consign.payments_lane();
    END IF;
    FOR v_former IN SELECT * FROM consign.former_payments(p_schema) LOOP
        IF NOT p_dry_run AND v_former.action NOT IN ('already_here', 'refused') THEN
            SELECT * INTO v_taken FROM consign.take_over_payment(v_former, v_fence, v_token, v_now);
            -- Numbers before the import may have gaps; those after it have none.
            INSERT INTO consign.participant_outbox_sequences AS s (participant_id, next_sequence_id, dense_from)
                VALUES (v_former.participant_id, v_former.sequence_id + 1, v_former.sequence_id + 1)
                ON CONFLICT (participant_id) DO UPDATE SET next_sequence_id = greatest(s.next_sequence_id, excluded.next_sequence_id),
                    dense_from = greatest(s.next_sequence_id, excluded.next_sequence_id);
            IF v_former.last_state = 'FAILED' THEN
                INSERT INTO consign.dead (message_id, lane, at, attempt_no, code, detail)
                    SELECT a.message_id, 'payments', a.finished_at, a.attempt_no, coalesce(a.code, 'dead'), a.detail
                        FROM consign.attempt a WHERE a.message_id = v_taken.id AND a.attempt_no = v_taken.attempts;
            ELSIF v_former.action <> 'finished' THEN
                SELECT * INTO v_message FROM consign.message m WHERE m.id = v_taken.id;
                IF consign.ready_or_waiting(v_message, least(v_taken.tries, v_tries), v_taken.attempts, v_now) = 'waiting' THEN
                    NULL;
                ELSIF v_former.next_attempt_at > v_now THEN
                    PERFORM consign.make_ready('payments', v_former.next_attempt_at, ARRAY[v_taken.id],
                                               ARRAY[least(v_taken.tries, v_tries)], ARRAY[v_taken.attempts], false);
                ELSE
                    v_due := v_due || v_taken.id;
                    v_counts := v_counts || least(v_taken.tries, v_tries);
                    v_nos := v_nos || v_taken.attempts;
                END IF;
            END IF;
        END IF;
        RETURN QUERY SELECT v_former.outbox_id, v_former.action, v_former.detail;
    END LOOP;
    IF NOT p_dry_run THEN
        PERFORM consign.make_ready('payments', v_now, v_due, v_counts, v_nos, false);
        PERFORM consign.wake(consign.known_lane('payments'));
        INSERT INTO consign.audit (at, actor, action, lane, reason)
            VALUES (v_now, session_user, 'import', 'payments', 'from schema ' || p_schema);
    END IF;
END $$;
REVOKE ALL ON FUNCTION consign.import_payment_outbox(text, boolean) FROM PUBLIC;
