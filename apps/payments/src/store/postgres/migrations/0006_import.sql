-- Importing the tables of the design that deleted on claim, in which an attempt in the state DISPATCHING was a lease.
-- Nothing there would ever send again what was in flight when its relayers stopped.

-- How much of a payment's former history has been taken over, in rows. What comes after that is news.
CREATE TABLE consign.payment_import (
    outbox_id uuid PRIMARY KEY,
    attempts  int NOT NULL CHECK (attempts >= 0)
);

-- The state of each payment in the former tables, and what the import does with it. `attempts` are its
-- outcomes that are not here yet, first to last; `history_rows` all rows of its history; `message_id` and
-- `message_state` those of its message here. `action` is one of
--   already_here, refused (`detail`: why), finished, pending,
--   requeued_dispatching  in flight when the relayers stopped: the rail may have received it
--   requeued_retryable    to be tried again, though no relayer would have
-- and, of a payment taken over before that was worked on there afterwards,
--   paid_there, failed_there, tried_there, paid_twice (there and here, under different references)
CREATE TYPE consign.former_payment AS (outbox_id uuid, instruction_id text, participant_id text, sequence_id bigint,
    idempotency_key text, rail_type text, payload jsonb, tenant_id uuid, correlation_id uuid, created_at timestamptz,
    next_attempt_at timestamptz, is_kyc_hold boolean, attempts jsonb, history_rows int, last_state text, message_id bigint,
    message_state text, action text, detail text);

-- What is done about a payment that is here already: p_last is the last row of its history there.
CREATE FUNCTION consign.former_news(p_message_id bigint, p_next_ttl text, p_last jsonb, OUT action text, OUT detail text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT CASE
            WHEN p_next_ttl = 'delivered' THEN CASE
                WHEN p_last->>'state' = 'DISPATCHED' AND NOT EXISTS (
                    SELECT FROM consign.attempt a WHERE a.message_id = p_message_id AND a.outcome = 'delivered'
                        AND (a.result->>'rail_reference' = p_last->>'rail_reference' OR a.code = 'resolved'))
                    THEN 'paid_twice' ELSE 'already_here' END
            WHEN p_next_ttl = 'leased' THEN 'refused'
            WHEN p_last->>'state' = 'DISPATCHED' THEN 'paid_there'
            WHEN p_last->>'state' = 'FAILED' THEN 'failed_there'
            ELSE 'tried_there' END,
        CASE WHEN p_next_ttl = 'leased' THEN CASE
                WHEN p_last->>'state' = 'DISPATCHED'
                    THEN 'it was paid there while it is in a lease here, which is kept as evidence; run this again when the lease has ended'
                ELSE 'it was worked on there while it is in a lease here; run this again when the lease has ended' END
            WHEN p_next_ttl <> 'delivered' THEN 'it was worked on there after it had been taken over; it was ' || p_next_ttl || ' here'
            WHEN p_last->>'state' = 'DISPATCHED' THEN 'both dispatched it; compare the references with the rail''s books' END $$;
REVOKE ALL ON FUNCTION consign.former_news(bigint, text, jsonb) FROM PUBLIC;

-- Why a payment that is not here yet cannot be taken over; NULL if it can.
CREATE FUNCTION consign.former_fault(p_row jsonb, p_key_twice boolean, p_sequence_twice boolean) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on
    AS $$
    SELECT CASE
        WHEN p_key_twice THEN 'its instruction and key name two payments there'
        WHEN p_sequence_twice THEN 'its participant has its number twice there'
        WHEN jsonb_typeof(p_row->'payload') IS DISTINCT FROM 'object' THEN 'its payload is no object'
        WHEN coalesce((p_row->>'sequence_id')::bigint < 1, true) THEN 'its number is below 1'
        WHEN EXISTS (SELECT FROM unnest(ARRAY['instruction_id', 'idempotency_key', 'participant_id', 'rail_type']) f
                         WHERE coalesce(p_row->>f !~ '\S' OR octet_length(p_row->>f) > 256, true))
            THEN 'instruction, key, participant and rail type must be 1 to 256 bytes'
        WHEN EXISTS (SELECT FROM consign.payment p WHERE p.instruction_id = p_row->>'instruction_id'
                         AND p.idempotency_key = p_row->>'idempotency_key'
                         AND p.tenant_id IS NOT DISTINCT FROM (p_row->>'tenant_id')::uuid) THEN 'its instruction and key name another payment here'
        ELSE (SELECT format('number %s of participant %s is taken here by payment %s: it is not sent until it is enqueued again',
                            p.sequence_id, p.participant_id, p.outbox_id)
                  FROM consign.payment p WHERE p.participant_id = p_row->>'participant_id'
                      AND p.sequence_id = (p_row->>'sequence_id')::bigint)
        END $$;
REVOKE ALL ON FUNCTION consign.former_fault(jsonb, boolean, boolean) FROM PUBLIC;

-- Granted to no role: it reads foreign tables, whose columns may have types with code of their own.
CREATE FUNCTION consign.former_payments(p_schema text) RETURNS SETOF consign.former_payment
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    -- Rows as documents: columns that some version of the tables lacked are simply not there.
    RETURN QUERY EXECUTE format($query$
        WITH pending AS (SELECT (p.outbox_id)::uuid AS outbox_id, to_jsonb(p) AS row FROM %1$I.payment_outbox_pending p),
        attempt AS (SELECT (a.outbox_id)::uuid AS outbox_id, to_jsonb(a) AS row,
                           row_number() OVER (PARTITION BY a.outbox_id ORDER BY a.attempt_no) AS ord
                        FROM %1$I.payment_outbox_attempts a),
        paid AS (SELECT outbox_id, min(ord) AS ord FROM attempt WHERE row->>'state' = 'DISPATCHED' GROUP BY outbox_id),
        history AS (
            -- What was tried after the rail had it stays where it is.
            SELECT a.outbox_id, (array_agg(a.row ORDER BY a.ord DESC))[1] AS last, min(a.row->>'created_at') AS first_at,
                   count(*)::int AS rows,
                   jsonb_agg(a.row ORDER BY a.ord)
                       FILTER (WHERE a.row->>'state' <> 'DISPATCHING' AND a.ord > coalesce(i.attempts, 0)) AS outcomes
                FROM attempt a LEFT JOIN paid p ON p.outbox_id = a.outbox_id
                LEFT JOIN consign.payment_import i ON i.outbox_id = a.outbox_id
                WHERE p.outbox_id IS NULL OR a.ord <= p.ord GROUP BY a.outbox_id),
        source AS (
            SELECT coalesce(p.outbox_id, h.outbox_id) AS outbox_id, coalesce(p.row, h.last) AS row, p.row AS pending, h.last,
                   coalesce(h.outcomes, '[]') AS outcomes, coalesce(h.rows, 0) AS history_rows,
                   coalesce(p.row->>'created_at', h.first_at)::timestamptz AS created_at
                FROM pending p FULL JOIN history h ON h.outbox_id = p.outbox_id),
        judged AS (
            SELECT s.*, count(*) OVER (PARTITION BY s.row->>'instruction_id', s.row->>'idempotency_key', s.row->>'tenant_id') > 1 AS key_twice,
                   count(*) OVER (PARTITION BY s.row->>'participant_id', s.row->>'sequence_id') > 1 AS sequence_twice,
                   here.message_id, s.history_rows > i.attempts AS has_news, consign.state_of(here.message_id) AS message_state
                FROM source s LEFT JOIN consign.payment here ON here.outbox_id = s.outbox_id
                LEFT JOIN consign.payment_import i ON i.outbox_id = s.outbox_id)
        SELECT j.outbox_id, j.row->>'instruction_id', j.row->>'participant_id', (j.row->>'sequence_id')::bigint,
               j.row->>'idempotency_key', j.row->>'rail_type', j.row->'payload', (j.row->>'tenant_id')::uuid,
               (j.row->>'correlation_id')::uuid, j.created_at, (j.pending->>'next_attempt_at')::timestamptz,
               coalesce((j.pending->>'kyc_hold')::boolean, false), j.outcomes, j.history_rows, j.last->>'state', j.message_id, j.message_state,
               CASE WHEN j.message_id IS NOT NULL THEN CASE WHEN j.has_news THEN news.action ELSE 'already_here' END
                    WHEN fault.detail IS NOT NULL THEN 'refused'
                    WHEN j.last->>'state' IN ('DISPATCHED', 'FAILED') THEN 'finished'
                    WHEN j.last->>'state' = 'DISPATCHING' OR j.pending->>'lease_token' IS NOT NULL THEN 'requeued_dispatching'
                    WHEN j.pending IS NOT NULL THEN 'pending'
                    ELSE 'requeued_retryable' END,
               CASE WHEN j.message_id IS NULL THEN fault.detail
                    WHEN j.has_news AND news.action <> 'already_here' THEN news.detail END
            FROM judged j,
                LATERAL (SELECT CASE WHEN j.message_id IS NULL
                                     THEN consign.former_fault(j.row, j.key_twice, j.sequence_twice) END AS detail) fault,
                LATERAL consign.former_news(j.message_id, j.message_state, j.last) news
            -- Within a participant by number; the running maximum keeps to time where it can.
            ORDER BY max(j.created_at) OVER (PARTITION BY j.row->>'participant_id' ORDER BY (j.row->>'sequence_id')::bigint),
                     (j.row->>'sequence_id')::bigint, j.outbox_id
        $query$, p_schema);
END $$;
REVOKE ALL ON FUNCTION consign.former_payments(text) FROM PUBLIC;

-- Appends what happened to a payment there to its history here, after attempt p_no; answers with the number
-- of the last attempt. What the rail may have received with an unknown outcome is in doubt: what a
-- crashed relayer had leased, what was to be retried after a timeout or without a reason, and whatever was retried after
-- that, because the rail was not asked. Such a payment that was given up has failed in doubt.
CREATE FUNCTION consign.take_over_attempts(p_former consign.former_payment, p_id bigint, p_no int, p_fence bigint, p_token uuid,
                                           p_now timestamptz) RETURNS int
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_doubt boolean := p_no > 0 AND consign.is_in_doubt(p_id);
    v_last  int := p_no + jsonb_array_length(p_former.attempts);
BEGIN
    INSERT INTO consign.attempt (message_id, attempt_no, outcome, owner, fence, token, claimed_at, finished_at, code, detail, result,
                                 next_due_at)
        SELECT p_id, p_no + f.ord,
               CASE WHEN f.state = 'DISPATCHED' THEN 'delivered' WHEN f.state = 'FAILED' AND f.is_unknown THEN 'expired'
                    WHEN f.state = 'FAILED' THEN 'dead'
                    WHEN f.state = 'RETRYABLE' AND NOT f.is_in_doubt THEN 'retry' ELSE 'uncertain' END::consign.outcome,
               coalesce(f.row->>'worker_id', 'import'), p_fence, p_token, coalesce(f.row->>'claimed_at', f.row->>'created_at')::timestamptz,
               greatest(f.at, (f.row->>'claimed_at')::timestamptz),
               CASE f.state WHEN 'DISPATCHED' THEN NULL WHEN 'ZOMBIE_REQUEUE' THEN 'lease_expired'
                    ELSE consign.payment_masked_code(f.row->>'error_code') END,
               consign.payment_masked(f.row->>'error_message'),
               CASE WHEN f.state = 'FAILED' AND f.is_unknown
                    THEN coalesce(f.result, '{}') || '{"may_have_begun": true}' ELSE f.result END,
               CASE WHEN f.state NOT IN ('DISPATCHED', 'FAILED') THEN f.at END
            FROM (SELECT e.*, v_doubt OR bool_or(e.is_unknown) OVER (ORDER BY e.ord) AS is_in_doubt,
                         consign.rail_result(e.row->>'rail_reference', e.row->>'rail_code', (e.row->>'latency_ms')::bigint) AS result,
                         coalesce(e.row->>'completed_at', e.row->>'created_at', e.row->>'claimed_at')::timestamptz AS at
                      FROM (SELECT o.row, o.ord, o.row->>'state' AS state,
                                   CASE o.row->>'state'
                                       WHEN 'ZOMBIE_REQUEUE' THEN true
                                       WHEN 'RETRYABLE' THEN consign.leaves_doubt(NULL, o.row->>'error_code', o.row->>'rail_code', false)
                                       WHEN 'FAILED' THEN coalesce(o.row->>'error_code' IN
                                           ('DISPATCH_TIMEOUT', 'DISPATCH_ERROR', 'RETRY_CEILING_EXCEEDED'), false)
                                       ELSE false END AS is_unknown
                                FROM jsonb_array_elements(p_former.attempts) WITH ORDINALITY AS o (row, ord)) e) f;
    IF p_former.action IN ('requeued_dispatching', 'requeued_retryable')
        OR p_former.action = 'tried_there' AND p_former.last_state = 'DISPATCHING'
    THEN
        v_last := v_last + 1;
        INSERT INTO consign.attempt (message_id, attempt_no, outcome, owner, fence, token, claimed_at, finished_at, code, next_due_at)
            VALUES (p_id, v_last, CASE p_former.action WHEN 'requeued_retryable' THEN 'expired' ELSE 'uncertain' END::consign.outcome,
                    'import', p_fence, p_token, p_now, p_now, 'lease_expired', p_now);
    END IF;
    INSERT INTO consign.payment_import (outbox_id, attempts) VALUES (p_former.outbox_id, p_former.history_rows)
        ON CONFLICT (outbox_id) DO UPDATE SET attempts = excluded.attempts;
    RETURN v_last;
END $$;
REVOKE ALL ON FUNCTION consign.take_over_attempts(consign.former_payment, bigint, int, bigint, uuid, timestamptz) FROM PUBLIC;

-- Files a payment whose history ends so as failed.
CREATE FUNCTION consign.bury_payment(p_id bigint, p_attempt_no int) RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp
    AS $$
    INSERT INTO consign.dead (message_id, queue, at, attempt_no, code, detail)
        SELECT a.message_id, 'payments', a.finished_at, a.attempt_no,
               coalesce(a.code, 'dead'), a.detail
            FROM consign.attempt a WHERE a.message_id = p_id AND a.attempt_no = p_attempt_no $$;
REVOKE ALL ON FUNCTION consign.bury_payment(bigint, int) FROM PUBLIC;

-- Writes the message, the payment and the history of one former payment, and files it where it belongs;
-- p_tries_max is how many tries it may have used up. Answers with what is due now: its caller makes that
-- ready in one go.
CREATE FUNCTION consign.take_over_payment(p_former consign.former_payment, p_fence bigint, p_token uuid, p_now timestamptz,
                                          p_tries_max int, OUT due_id bigint, OUT tries int, OUT attempts int)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_message consign.message;
BEGIN
    v_message := ROW((consign.reserve_ids(1))[1], p_former.created_at, 'payments', p_former.outbox_id::text,
                     p_former.participant_id,
                     jsonb_build_object('outbox_id', p_former.outbox_id, 'instruction_id', p_former.instruction_id,
                         'idempotency_key', p_former.idempotency_key, 'participant_id', p_former.participant_id,
                         'sequence_id', p_former.sequence_id, 'rail_type', p_former.rail_type, 'tenant_id', p_former.tenant_id,
                         'correlation_id', p_former.correlation_id, 'payload', p_former.payload),
                     jsonb_strip_nulls(jsonb_build_object('correlation_id', p_former.correlation_id)), NULL);
    INSERT INTO consign.payment (outbox_id, message_id, sequence_id, created_at, tenant_id, correlation_id, instruction_id,
                                 idempotency_key, participant_id, rail_type)
        VALUES (p_former.outbox_id, v_message.id, p_former.sequence_id, p_former.created_at, p_former.tenant_id,
                p_former.correlation_id, p_former.instruction_id, p_former.idempotency_key, p_former.participant_id, p_former.rail_type);
    PERFORM consign.insert_message(v_message);
    attempts := consign.take_over_attempts(p_former, v_message.id, 0, p_fence, p_token, p_now);
    tries := least(jsonb_array_length(p_former.attempts), p_tries_max);
    IF p_former.last_state = 'FAILED' THEN
        PERFORM consign.bury_payment(v_message.id, attempts);
    ELSIF p_former.action = 'finished' THEN
        NULL;
    ELSIF p_former.is_kyc_hold THEN
        PERFORM consign.hold_payment(v_message.id, p_former.participant_id, tries, attempts, p_now);
    ELSIF consign.ready_or_waiting(v_message, tries, attempts, p_now) = 'waiting' THEN
        NULL;
    ELSIF p_former.next_attempt_at > p_now THEN
        PERFORM consign.make_ready('payments', p_former.next_attempt_at, ARRAY[v_message.id], ARRAY[tries], ARRAY[attempts], false);
    ELSE
        due_id := v_message.id;
    END IF;
END $$;
REVOKE ALL ON FUNCTION consign.take_over_payment(consign.former_payment, bigint, uuid, timestamptz, int) FROM PUBLIC;

-- Keeps as evidence that a payment was dispatched there, once for each reference.
CREATE FUNCTION consign.record_late_former(p_former consign.former_payment, p_fence bigint, p_token uuid, p_now timestamptz) RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp
    AS $$
    INSERT INTO consign.late (message_id, fence, at, token, outcome, owner, result)
        SELECT p_former.message_id, p_fence, p_now, p_token, 'delivered', coalesce(o.row->>'worker_id', 'import'),
               consign.rail_result(o.row->>'rail_reference', o.row->>'rail_code', (o.row->>'latency_ms')::bigint)
            FROM jsonb_array_elements(p_former.attempts) o (row)
            WHERE o.row->>'state' = 'DISPATCHED' AND EXISTS (SELECT FROM consign.message m WHERE m.id = p_former.message_id) AND NOT EXISTS (
                SELECT FROM consign.late l WHERE l.message_id = p_former.message_id AND l.outcome = 'delivered'
                    AND l.result->>'rail_reference' IS NOT DISTINCT FROM o.row->>'rail_reference') $$;
REVOKE ALL ON FUNCTION consign.record_late_former(consign.former_payment, bigint, uuid, timestamptz) FROM PUBLIC;

-- Does about a payment that is here already what happened to it there meanwhile: what was paid there is
-- dispatched, what failed there has failed, and what was tried there stays where it is, with that on record.
CREATE FUNCTION consign.take_over_news(p_former consign.former_payment, p_fence bigint, p_token uuid, p_now timestamptz) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_message consign.message;
    v_queue    consign.queue := consign.known_queue('payments');
    v_entry   record;
    v_held    consign.held;
    v_dead    consign.dead;
    v_no      int;
BEGIN
    IF p_former.message_state = 'leased' THEN
        -- The rail may have received it: it cannot be released, and it is in doubt if its lease expires.
        UPDATE consign.lease l SET begun = ARRAY(SELECT DISTINCT u FROM unnest(l.begun || p_former.message_id) u ORDER BY u)
            WHERE l.queue = 'payments' AND p_former.message_id = ANY (l.ids);
        IF NOT FOUND THEN
            RAISE EXCEPTION 'payment % changed during the call', p_former.outbox_id
                USING ERRCODE = 'serialization_failure', HINT = 'Nothing was taken over. Run it again.';
        END IF;
    END IF;
    IF p_former.message_state IN ('delivered', 'leased') THEN
        PERFORM consign.record_late_former(p_former, p_fence, p_token, p_now);
        RETURN;
    END IF;
    SELECT * INTO STRICT v_message FROM consign.message m WHERE m.id = p_former.message_id;
    IF p_former.message_state = 'dead' THEN
        DELETE FROM consign.dead d WHERE d.message_id = v_message.id RETURNING * INTO v_dead;
        v_no := v_dead.attempt_no;
    ELSIF p_former.message_state = 'held' THEN
        DELETE FROM consign.held h WHERE h.message_id = v_message.id RETURNING * INTO v_held;
        v_no := v_held.attempts;
    ELSE
        SELECT * INTO v_entry FROM consign.take_out(v_message.id);
        v_no := v_entry.attempts;
    END IF;
    IF v_no IS NULL THEN
        RAISE EXCEPTION 'payment % changed during the call', p_former.outbox_id
            USING ERRCODE = 'serialization_failure', HINT = 'Nothing was taken over. Run it again.';
    END IF;
    v_no := consign.take_over_attempts(p_former, v_message.id, v_no, p_fence, p_token, p_now);
    IF p_former.action = 'failed_there' THEN
        PERFORM consign.bury_payment(v_message.id, v_no);
    ELSIF p_former.action = 'paid_there' THEN
        IF p_former.message_state = 'dead' THEN
            -- It died and is delivered now: its death stays in the totals of the queue.
            PERFORM consign.count_departed('payments', 0, 0, 1);
        END IF;
    ELSIF p_former.message_state = 'dead' THEN
        INSERT INTO consign.dead (message_id, queue, at, attempt_no, code, detail)
            VALUES (v_message.id, v_dead.queue, v_dead.at, v_no, v_dead.code, v_dead.detail);
    ELSIF p_former.message_state = 'held' THEN
        INSERT INTO consign.held (message_id, queue, at, reason, tries, attempts, "group")
            VALUES (v_message.id, v_held.queue, v_held.at, v_held.reason, v_held.tries, v_no, v_held."group");
    ELSIF consign.ready_or_waiting(v_message, v_entry.tries, v_no, p_now) = 'ready' THEN
        PERFORM consign.make_ready('payments', p_now, ARRAY[v_message.id], ARRAY[v_entry.tries], ARRAY[v_no], false);
    END IF;
    IF (v_queue.policy->>'ordered')::boolean
        AND (p_former.action = 'paid_there' OR p_former.action = 'failed_there' AND v_queue.policy->>'on_dead' = 'continue')
        AND EXISTS (SELECT FROM consign.group_head t
                        WHERE t.queue = 'payments' AND t."group" = v_message."group" AND t.message_id = v_message.id)
    THEN
        PERFORM consign.promote_next('payments', v_message."group", p_now);
    END IF;
END $$;
REVOKE ALL ON FUNCTION consign.take_over_news(consign.former_payment, bigint, uuid, timestamptz) FROM PUBLIC;

-- The largest number that each participant has used there: for a payment, or by the former sequence if the
-- schema has that table.
CREATE FUNCTION consign.former_numbers(p_schema text) RETURNS TABLE (participant_id text, last bigint)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on
    AS $$
DECLARE
    v_sequences text := '';
BEGIN
    IF to_regclass(format('%I.participant_outbox_sequences', p_schema)) IS NOT NULL THEN
        v_sequences := format('UNION ALL SELECT (s.participant_id)::text, (s.next_sequence_id)::bigint - 1
                                   FROM %I.participant_outbox_sequences s', p_schema);
    END IF;
    RETURN QUERY EXECUTE format($query$
        SELECT u.participant_id COLLATE "C", max(u.number)
            FROM (SELECT (p.participant_id)::text, (p.sequence_id)::bigint FROM %1$I.payment_outbox_pending p
                  UNION ALL SELECT (a.participant_id)::text, (a.sequence_id)::bigint FROM %1$I.payment_outbox_attempts a
                  %2$s) AS u (participant_id, number)
            WHERE u.participant_id ~ '\S' AND octet_length(u.participant_id) <= 256 AND u.number >= 1
            GROUP BY u.participant_id COLLATE "C" ORDER BY u.participant_id COLLATE "C"
        $query$, p_schema, v_sequences);
END $$;
REVOKE ALL ON FUNCTION consign.former_numbers(text) FROM PUBLIC;

-- Imports the tables payment_outbox_pending and payment_outbox_attempts of a schema, or returns what it would do: a row for each payment there. Repeating it takes over what is new. Stop the relayers first;
-- the tables are locked against writing meanwhile, and not changed.
CREATE FUNCTION consign.import_payment_outbox(p_schema text, p_dry_run boolean DEFAULT true)
    RETURNS TABLE (outbox_id uuid, action text, detail text)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
#variable_conflict use_column
DECLARE
    v_now    timestamptz := consign.clock();
    v_fence  bigint := nextval(pg_get_serial_sequence('consign.lease', 'fence'));
    v_token  uuid := gen_random_uuid();
    v_former consign.former_payment;
    v_taken  record;
    v_tries  int := ((consign.payments_policy())->>'attempts_max')::int - 1;
    v_due    bigint[] := '{}';
    v_counts int[] := '{}';
    v_nos    int[] := '{}';
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
        v_tries := ((consign.payments_queue()).policy->>'attempts_max')::int - 1;
        -- As an enqueue does: no other transaction takes a number meanwhile.
        INSERT INTO consign.payment_participant (participant_id)
            SELECT f.participant_id FROM consign.former_numbers(p_schema) f ORDER BY 1 ON CONFLICT (participant_id) DO NOTHING;
        PERFORM FROM consign.payment_participant q WHERE q.participant_id IN (SELECT f.participant_id FROM consign.former_numbers(p_schema) f)
            ORDER BY q.participant_id FOR UPDATE;
    END IF;
    FOR v_former IN SELECT * FROM consign.former_payments(p_schema) LOOP
        IF NOT p_dry_run AND v_former.action IN ('finished', 'pending', 'requeued_dispatching', 'requeued_retryable') THEN
            SELECT * INTO v_taken FROM consign.take_over_payment(v_former, v_fence, v_token, v_now, v_tries);
            IF v_taken.due_id IS NOT NULL THEN
                v_due := v_due || v_taken.due_id;
                v_counts := v_counts || v_taken.tries;
                v_nos := v_nos || v_taken.attempts;
            END IF;
        ELSIF NOT p_dry_run AND v_former.message_id IS NOT NULL AND v_former.action <> 'already_here' THEN
            PERFORM consign.take_over_news(v_former, v_fence, v_token, v_now);
        END IF;
        RETURN QUERY SELECT v_former.outbox_id, v_former.action, v_former.detail;
    END LOOP;
    IF NOT p_dry_run THEN
        -- Numbers up to here may have gaps; those after have none.
        UPDATE consign.payment_participant q SET dense_from = f.last + 1
            FROM consign.former_numbers(p_schema) f WHERE f.participant_id = q.participant_id AND f.last >= q.dense_from;
        PERFORM consign.make_ready('payments', v_now, v_due, v_counts, v_nos, false);
        INSERT INTO consign.audit (at, actor, action, queue, reason)
            VALUES (v_now, session_user, 'import', 'payments', 'from schema ' || p_schema);
    END IF;
END $$;
REVOKE ALL ON FUNCTION consign.import_payment_outbox(text, boolean) FROM PUBLIC;
