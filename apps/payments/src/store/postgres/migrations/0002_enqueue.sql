-- Enqueueing payments, in the caller's own transaction.

-- Time-ordered (UUIDv7), so that payments of one time stand together in every index.
CREATE FUNCTION consign.new_outbox_id(p_now timestamptz) RETURNS uuid
    LANGUAGE sql VOLATILE
    RETURN encode(set_byte(
        substring(int8send((extract(epoch FROM p_now) * 1000)::bigint) FROM 3) || substring(uuid_send(gen_random_uuid()) FROM 7),
        6, 112 + get_byte(uuid_send(gen_random_uuid()), 0) % 16), 'hex')::uuid;
REVOKE ALL ON FUNCTION consign.new_outbox_id(timestamptz) FROM PUBLIC;

-- The next number of a participant; it is used up by writing the payment. The participant stays locked to
-- the end of the transaction: numbers without gaps mean that its enqueues commit one after the other.
CREATE FUNCTION consign.bump_participant_outbox_seq(p_participant_id text) RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_from bigint;
BEGIN
    SELECT q.dense_from INTO v_from FROM consign.payment_participant q WHERE q.participant_id = p_participant_id FOR UPDATE;
    IF NOT FOUND THEN
        INSERT INTO consign.payment_participant (participant_id) VALUES (p_participant_id) ON CONFLICT (participant_id) DO NOTHING;
        SELECT q.dense_from INTO STRICT v_from FROM consign.payment_participant q
            WHERE q.participant_id = p_participant_id FOR UPDATE;
    END IF;
    -- A statement of its own: it sees what was committed while this one waited for the lock.
    RETURN greatest(v_from, coalesce((SELECT max(p.sequence_id) FROM consign.payment p
                                          WHERE p.participant_id = p_participant_id), 0) + 1);
END $$;
REVOKE ALL ON FUNCTION consign.bump_participant_outbox_seq(text) FROM PUBLIC;

-- How a payment stands.
CREATE FUNCTION consign.payment_state(p_message_id bigint) RETURNS text
    -- In PL/pgSQL, which keeps its plan: planning over many ranges takes longer than reading.
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
    AS $$
BEGIN
    RETURN CASE
        WHEN EXISTS (SELECT FROM consign.dead WHERE message_id = p_message_id) THEN 'FAILED'
        WHEN EXISTS (SELECT FROM consign.held WHERE message_id = p_message_id) THEN 'HELD'
        WHEN EXISTS (SELECT FROM consign.attempt WHERE message_id = p_message_id AND outcome = 'delivered') THEN 'DISPATCHED'
        WHEN EXISTS (SELECT FROM consign.message WHERE id = p_message_id) THEN 'PENDING'
        -- It has left.
        ELSE (SELECT CASE WHEN k.died THEN 'FAILED' ELSE 'DISPATCHED' END
                  FROM consign.payment p JOIN consign.message_key k ON k.queue = 'payments' AND k.key = p.outbox_id::text
                  WHERE p.message_id = p_message_id)
    END;
END $$;
REVOKE ALL ON FUNCTION consign.payment_state(bigint) FROM PUBLIC;

-- The queue of payments; created with the protocol's policy by the first payment.
CREATE FUNCTION consign.payments_queue() RETURNS consign.queue
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_queue consign.queue;
BEGIN
    SELECT * INTO v_queue FROM consign.queue WHERE name = 'payments' AND policy IS NOT NULL;
    IF FOUND THEN
        RETURN v_queue;
    END IF;
    UPDATE consign.queue SET policy = consign.payments_policy() WHERE name = 'payments' AND policy IS NULL;
    IF FOUND THEN
        INSERT INTO consign.audit (at, actor, action, queue, reason)
            VALUES (consign.clock(), 'consign', 'queue', 'payments', 'the first payment');
    END IF;
    RETURN consign.known_queue('payments');
END $$;
REVOKE ALL ON FUNCTION consign.payments_queue() FROM PUBLIC;

CREATE TYPE consign.new_payment AS (ord bigint, instruction_id text, participant_id text, idempotency_key text, rail_type text,
    payload jsonb, tenant_id uuid, correlation_id uuid, headers jsonb, is_held boolean);

CREATE FUNCTION consign.check_payments(p_payments consign.new_payment[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on
    AS $$
DECLARE
    v_wrong record;
BEGIN
    SELECT p.ord - 1 AS index, f.name, f.value IS NULL AS is_null INTO v_wrong
        FROM unnest(p_payments) p, LATERAL (VALUES
            (1, 'instruction_id', p.instruction_id), (2, 'idempotency_key', p.idempotency_key),
            (3, 'participant_id', p.participant_id), (4, 'rail_type', p.rail_type)) AS f (ord, name, value)
        WHERE f.value IS NULL OR f.value !~ '\S' OR octet_length(f.value) > 256
        ORDER BY p.ord, f.ord LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION '%: must be 1 to 256 bytes and not blank (payment %)', v_wrong.name, v_wrong.index
            USING ERRCODE = CASE WHEN v_wrong.is_null THEN 'not_null_violation' ELSE 'CN006' END;
    END IF;
    SELECT p.ord - 1 AS index INTO v_wrong FROM unnest(p_payments) p
        WHERE jsonb_typeof(p.payload) IS DISTINCT FROM 'object' ORDER BY p.ord LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'payload: must be a JSON object (payment %)', v_wrong.index USING ERRCODE = 'check_violation';
    END IF;
END $$;
REVOKE ALL ON FUNCTION consign.check_payments(consign.new_payment[]) FROM PUBLIC;

-- Which field of a repeated payment differs from the one its key names, p_body in its message; NULL when
-- none does.
CREATE FUNCTION consign.payment_conflict(p_first consign.payment, p_body jsonb, p_again consign.new_payment) RETURNS text
    LANGUAGE sql IMMUTABLE
    RETURN CASE
        WHEN p_first.participant_id <> p_again.participant_id THEN 'participant_id'
        WHEN p_first.rail_type <> p_again.rail_type THEN 'rail_type'
        WHEN p_body->'payload' <> p_again.payload THEN 'payload'
        WHEN coalesce((p_body->>'kyc_hold')::boolean, false) <> p_again.is_held THEN 'kyc_hold'
    END;
REVOKE ALL ON FUNCTION consign.payment_conflict(consign.payment, jsonb, consign.new_payment) FROM PUBLIC;

-- The document of a payment's message.
CREATE FUNCTION consign.payment_body(p_first consign.payment, p_payload jsonb, p_is_held boolean) RETURNS jsonb
    LANGUAGE sql STABLE
    RETURN jsonb_build_object('outbox_id', p_first.outbox_id, 'instruction_id', p_first.instruction_id,
            'idempotency_key', p_first.idempotency_key, 'participant_id', p_first.participant_id,
            'sequence_id', p_first.sequence_id, 'rail_type', p_first.rail_type, 'tenant_id', p_first.tenant_id,
            'correlation_id', p_first.correlation_id, 'payload', p_payload)
        || CASE WHEN p_is_held THEN '{"kyc_hold": true}' ELSE '{}' END::jsonb;
REVOKE ALL ON FUNCTION consign.payment_body(consign.payment, jsonb, boolean) FROM PUBLIC;

-- The same as payment_conflict for a payment whose message was erased or has left: by the digest that is kept.
CREATE FUNCTION consign.former_payment_conflict(p_first consign.payment, p_again consign.new_payment) RETURNS text
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_digest bytea;
BEGIN
    SELECT coalesce(e.digest, k.digest) INTO v_digest
        FROM consign.message_key k LEFT JOIN consign.erasure e ON e.message_id = p_first.message_id
        WHERE k.queue = 'payments' AND k.key = p_first.outbox_id::text;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the key of payment % was removed during the call', p_first.outbox_id
            USING ERRCODE = 'serialization_failure', HINT = 'Nothing was written. Enqueue the payment again.';
    END IF;
    RETURN CASE
        WHEN p_first.participant_id <> p_again.participant_id THEN 'participant_id'
        WHEN p_first.rail_type <> p_again.rail_type THEN 'rail_type'
        WHEN v_digest = consign.digest(consign.payment_body(p_first, p_again.payload, p_again.is_held)) THEN NULL
        WHEN v_digest = consign.digest(consign.payment_body(p_first, p_again.payload, NOT p_again.is_held)) THEN 'kyc_hold'
        ELSE 'payload'
    END;
END $$;
REVOKE ALL ON FUNCTION consign.former_payment_conflict(consign.payment, consign.new_payment) FROM PUBLIC;

-- Holds a new payment. In an ordered queue those after it wait for it: it is the head if there was none,
-- and keeps its place if not.
CREATE FUNCTION consign.hold_payment(p_id bigint, p_group text, p_tries int, p_attempts int, p_now timestamptz) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_waits_in text;
BEGIN
    IF ((consign.known_queue('payments')).policy->>'ordered')::boolean AND NOT consign.become_head('payments', p_group, p_id) THEN
        v_waits_in := p_group;
    END IF;
    INSERT INTO consign.held (message_id, queue, at, reason, tries, attempts, "group")
        VALUES (p_id, 'payments', p_now, 'kyc_hold', p_tries, p_attempts, v_waits_in);
END $$;
REVOKE ALL ON FUNCTION consign.hold_payment(bigint, text, int, int, timestamptz) FROM PUBLIC;

-- Puts the message of a new payment where it belongs: into a ready batch, or with the held.
CREATE FUNCTION consign.enqueue_payment_messages(p_ids bigint[], p_payloads jsonb[], p_keys text[], p_groups text[],
                                                 p_headers jsonb[], p_holds boolean[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_queue consign.queue := consign.payments_queue();
    v_now  timestamptz := consign.clock();
BEGIN
    IF NOT true = ANY (p_holds) THEN
        PERFORM consign.enqueue_numbered('payments', p_ids, p_payloads, p_keys, p_groups, p_headers, NULL, NULL, p_ids, false);
    ELSE
        -- One by one: in an ordered queue each may become the head of its participant before the next one looks.
        FOR v_index IN 1 .. cardinality(p_ids) LOOP
            IF NOT p_holds[v_index] THEN
                PERFORM consign.enqueue_numbered('payments', p_ids[v_index : v_index], p_payloads[v_index : v_index],
                    p_keys[v_index : v_index], p_groups[v_index : v_index], p_headers[v_index : v_index], NULL, NULL, p_ids, false);
                CONTINUE;
            END IF;
            PERFORM consign.check_messages(v_queue, p_payloads[v_index : v_index], p_keys[v_index : v_index],
                p_groups[v_index : v_index], p_headers[v_index : v_index], NULL);
            PERFORM consign.insert_message(ROW(p_ids[v_index], v_now, 'payments', p_keys[v_index], p_groups[v_index],
                                               p_payloads[v_index], coalesce(p_headers[v_index], '{}'), NULL)::consign.message);
            PERFORM consign.hold_payment(p_ids[v_index], p_groups[v_index], 0, 0, v_now);
        END LOOP;
    END IF;
    IF (v_queue.policy->>'notify')::boolean THEN
        PERFORM pg_notify('symphony_outbox', '');
    END IF;
END $$;
REVOKE ALL ON FUNCTION consign.enqueue_payment_messages(bigint[], jsonb[], text[], text[], jsonb[], boolean[]) FROM PUBLIC;

-- Enqueues checked payments and answers in their order.
CREATE FUNCTION consign.enqueue_checked_payments(p_payments consign.new_payment[])
    RETURNS TABLE (outbox_id uuid, sequence_id bigint, created_at timestamptz, state text, duplicate boolean, conflict text)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
#variable_conflict use_column
DECLARE
    v_new     consign.new_payment;
    v_payment consign.payment;
    v_now     timestamptz := consign.clock();
    v_ids     bigint[] := '{}';
    v_bodies  jsonb[] := '{}';
    v_body    jsonb;
    v_keys    text[] := '{}';
    v_groups  text[] := '{}';
    v_headers jsonb[] := '{}';
    v_holds   boolean[] := '{}';
    v_index   int;
BEGIN
    FOREACH v_new IN ARRAY p_payments LOOP
        duplicate := true;
        v_index := NULL;
        SELECT * INTO v_payment FROM consign.payment p
            WHERE p.instruction_id = v_new.instruction_id AND p.idempotency_key = v_new.idempotency_key
                AND p.tenant_id IS NOT DISTINCT FROM v_new.tenant_id;
        IF NOT FOUND THEN
            v_payment := ROW(consign.new_outbox_id(v_now), NULL, consign.bump_participant_outbox_seq(v_new.participant_id), v_now,
                v_new.tenant_id, v_new.correlation_id, v_new.instruction_id, v_new.idempotency_key, v_new.participant_id, v_new.rail_type);
            -- After the number, so that a participant's messages are in the order of its sequence.
            v_payment.message_id := (consign.reserve_ids(1))[1];
            -- No constraint is named, so that a transaction that cannot see the number's last use gets the error to
            -- repeat (40001), as with the key.
            INSERT INTO consign.payment SELECT v_payment.* ON CONFLICT DO NOTHING;
            duplicate := NOT FOUND;
            IF duplicate THEN
                -- Another transaction committed this key while this one waited for the participant. The number is free.
                SELECT * INTO STRICT v_payment FROM consign.payment p
                    WHERE p.instruction_id = v_new.instruction_id AND p.idempotency_key = v_new.idempotency_key
                AND p.tenant_id IS NOT DISTINCT FROM v_new.tenant_id;
            ELSE
                v_ids := v_ids || v_payment.message_id;
                v_index := cardinality(v_ids);
                v_keys := v_keys || v_payment.outbox_id::text;
                v_groups := v_groups || v_new.participant_id;
                v_headers := v_headers || (coalesce(v_new.headers, '{}')
                    || jsonb_strip_nulls(jsonb_build_object('correlation_id', v_new.correlation_id)));
                v_holds := v_holds || v_new.is_held;
                v_bodies := v_bodies || consign.payment_body(v_payment, v_new.payload, v_new.is_held);
            END IF;
        END IF;
        outbox_id := v_payment.outbox_id;
        sequence_id := v_payment.sequence_id;
        created_at := v_payment.created_at;
        IF v_index IS NULL THEN
            v_index := array_position(v_ids, v_payment.message_id);
        END IF;
        IF v_index IS NOT NULL THEN
            -- New, or named twice in this call: its message is not written yet.
            conflict := CASE WHEN duplicate THEN consign.payment_conflict(v_payment, v_bodies[v_index], v_new) END;
            state := CASE WHEN v_holds[v_index] THEN 'HELD' ELSE 'PENDING' END;
        ELSE
            SELECT m.payload INTO v_body FROM consign.message m WHERE m.id = v_payment.message_id;
            conflict := CASE WHEN FOUND AND v_body <> 'null' THEN consign.payment_conflict(v_payment, v_body, v_new)
                             ELSE consign.former_payment_conflict(v_payment, v_new) END;
            state := consign.payment_state(v_payment.message_id);
            IF current_setting('transaction_isolation') <> 'read committed' THEN
                PERFORM consign.require_current_ranges(ARRAY[v_payment.message_id]);
            END IF;
        END IF;
        RETURN NEXT;
    END LOOP;
    IF cardinality(v_ids) > 0 THEN
        PERFORM consign.enqueue_payment_messages(v_ids, v_bodies, v_keys, v_groups, v_headers, v_holds);
    END IF;
END $$;
REVOKE ALL ON FUNCTION consign.enqueue_checked_payments(consign.new_payment[]) FROM PUBLIC;

-- Enqueues payments: a row for each in the order given. One whose key names another payment already is
-- answered with the field in which they differ (`conflict`) and leaves the others alone. Keys are their tenant's
-- own; a login that is bound to a tenant enqueues for no other.
CREATE FUNCTION consign.enqueue_payments(p_instruction_ids text[], p_participant_ids text[], p_idempotency_keys text[],
                                         p_rail_types text[], p_payloads jsonb[], p_tenant_ids uuid[] DEFAULT NULL,
                                         p_correlation_ids uuid[] DEFAULT NULL, p_kyc_holds boolean[] DEFAULT NULL,
                                         p_headers jsonb[] DEFAULT NULL)
    RETURNS TABLE (outbox_id uuid, sequence_id bigint, created_at timestamptz, state text, duplicate boolean, conflict text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET jit = off
    SET plan_cache_mode = force_generic_plan
    AS $$
DECLARE
    v_payments consign.new_payment[];
    v_waiting  text[];
BEGIN
    PERFORM consign.require_same_length(p_payloads, coalesce(cardinality(p_instruction_ids), 0), coalesce(cardinality(p_participant_ids), 0),
        coalesce(cardinality(p_idempotency_keys), 0), coalesce(cardinality(p_rail_types), 0), cardinality(p_tenant_ids),
        cardinality(p_correlation_ids), cardinality(p_kyc_holds), cardinality(p_headers));
    v_payments := ARRAY(
        SELECT ROW(u.ord, u.instruction_id, u.participant_id, u.idempotency_key, u.rail_type, u.payload, u.tenant_id,
                   u.correlation_id, u.headers, coalesce(u.is_held, false))::consign.new_payment
            FROM unnest(p_instruction_ids, p_participant_ids, p_idempotency_keys, p_rail_types, p_payloads, p_tenant_ids,
                        p_correlation_ids, p_headers, p_kyc_holds)
                WITH ORDINALITY AS u (instruction_id, participant_id, idempotency_key, rail_type, payload, tenant_id,
                                      correlation_id, headers, is_held, ord)
            ORDER BY u.ord);
    PERFORM consign.check_payments(v_payments);
    IF EXISTS (SELECT FROM consign.tenant_login t, unnest(v_payments) n
                   WHERE t.login IN (session_user, consign.acting_role()) AND n.tenant_id IS DISTINCT FROM t.tenant_id)
    THEN
        RAISE EXCEPTION 'permission denied: % enqueues payments of its own tenant only', consign.acting_role()
            USING ERRCODE = 'insufficient_privilege', HINT = 'consign.tenant_login has the tenant of each login.';
    END IF;
    IF cardinality(v_payments) > 1 THEN
        -- Participants in one order everywhere, or two producers could wait for each other.
        v_waiting := ARRAY(
            SELECT DISTINCT n.participant_id FROM unnest(v_payments) n
                WHERE NOT EXISTS (SELECT FROM consign.payment p WHERE p.instruction_id = n.instruction_id
                                      AND p.idempotency_key = n.idempotency_key AND p.tenant_id IS NOT DISTINCT FROM n.tenant_id)
                ORDER BY n.participant_id);
        INSERT INTO consign.payment_participant (participant_id)
            SELECT u FROM unnest(v_waiting) u ORDER BY u ON CONFLICT (participant_id) DO NOTHING;
        PERFORM FROM consign.payment_participant q WHERE q.participant_id = ANY (v_waiting)
            ORDER BY q.participant_id FOR UPDATE;
    END IF;
    RETURN QUERY SELECT * FROM consign.enqueue_checked_payments(v_payments);
END $$;
REVOKE ALL ON FUNCTION consign.enqueue_payments(text[], text[], text[], text[], jsonb[], uuid[], uuid[], boolean[], jsonb[]) FROM PUBLIC;

-- Enqueues one payment and answers with it, or with the one its key names already (P7004 if that is
-- another payment).
CREATE FUNCTION consign.enqueue_payment_outbox(p_instruction_id text, p_participant_id text, p_idempotency_key text,
                                               p_rail_type text, p_payload jsonb, p_tenant_id uuid DEFAULT NULL,
                                               p_correlation_id uuid DEFAULT NULL, p_kyc_hold boolean DEFAULT false,
                                               p_headers jsonb DEFAULT '{}')
    RETURNS TABLE (outbox_id uuid, sequence_id bigint, created_at timestamptz, state text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_answer record;
BEGIN
    SELECT e.* INTO STRICT v_answer FROM consign.enqueue_payments(
        ARRAY[p_instruction_id], ARRAY[p_participant_id], ARRAY[p_idempotency_key], ARRAY[p_rail_type], ARRAY[p_payload],
        ARRAY[p_tenant_id], ARRAY[p_correlation_id], ARRAY[p_kyc_hold], ARRAY[p_headers]) e;
    IF v_answer.conflict IS NOT NULL THEN
        RAISE EXCEPTION 'this instruction and key name % already, whose % differs',
                'payment ' || v_answer.outbox_id, v_answer.conflict
            USING ERRCODE = 'P7004', HINT = 'Use a new key, or send what was sent before.',
                  DETAIL = jsonb_build_object('field', v_answer.conflict, 'outbox_id', v_answer.outbox_id)::text;
    END IF;
    RETURN QUERY SELECT v_answer.outbox_id, v_answer.sequence_id, v_answer.created_at, v_answer.state;
END $$;
REVOKE ALL ON FUNCTION consign.enqueue_payment_outbox(text, text, text, text, jsonb, uuid, uuid, boolean, jsonb) FROM PUBLIC;
