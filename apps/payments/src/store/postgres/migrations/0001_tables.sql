-- Payments: the tables beside the messages of the queue `payments`.
--
-- A payment is a message and a row here, written in one transaction and never changed. How it stands
-- is where its message is; what happened to it are that message's attempts.

-- DISPATCHING is a state of the former design, in which an attempt was a lease. Nothing writes it, and a completion with
-- it is rejected.
CREATE TYPE consign.outbox_attempt_state AS ENUM ('DISPATCHING', 'DISPATCHED', 'RETRYABLE', 'FAILED', 'ZOMBIE_REQUEUE');

CREATE TABLE consign.payment (
    outbox_id       uuid PRIMARY KEY,
    message_id      bigint NOT NULL UNIQUE,
    sequence_id     bigint NOT NULL CHECK (sequence_id >= 1),
    created_at      timestamptz NOT NULL,
    tenant_id       uuid,
    correlation_id  uuid,
    instruction_id  text COLLATE "C" NOT NULL,
    idempotency_key text COLLATE "C" NOT NULL,
    participant_id  text COLLATE "C" NOT NULL,
    rail_type       text COLLATE "C" NOT NULL,
    CONSTRAINT payment_participant_sequence UNIQUE (participant_id, sequence_id)
);
-- A key belongs to its tenant; payments without a tenant share one space of keys.
CREATE UNIQUE INDEX payment_idempotency ON consign.payment (instruction_id, idempotency_key, coalesce(tenant_id::text, ''));
CREATE INDEX payment_tenant ON consign.payment (tenant_id, message_id) WHERE tenant_id IS NOT NULL;

-- Which tenant a login belongs to: as symphony_tenant it sees nothing else, and it enqueues for no other. Only the
-- owner of the schema writes here.
CREATE TABLE consign.tenant_login (
    login     name PRIMARY KEY,
    tenant_id uuid NOT NULL
);

-- Locked by the transaction that numbers a participant's payments. The next number is not stored: it follows from the
-- payments themselves, and so has no gaps after a rollback. A counter would leave a dead
-- row behind with each number, and a transaction that takes thousands walks over all of its own.
-- `dense_from`: numbers from here on have no gaps; those before came with an import, or some of them were forgotten.
CREATE TABLE consign.payment_participant (
    participant_id text COLLATE "C" PRIMARY KEY,
    dense_from     bigint NOT NULL DEFAULT 1 CHECK (dense_from >= 1)
);
CREATE VIEW consign.participant_outbox_sequences AS
    SELECT q.participant_id, greatest(q.dense_from, n.last + 1) AS next_sequence_id, q.dense_from
        FROM consign.payment_participant q,
            LATERAL (SELECT coalesce(max(p.sequence_id), 0) AS last FROM consign.payment p
                         WHERE p.participant_id = q.participant_id) n;

-- The database itself keeps a payment from being dispatched twice. Attempts of other queues have no rail reference and
-- pay only for the check of the condition.
CREATE UNIQUE INDEX ux_outbox_attempts_one_terminal_per_outbox ON consign.attempt (message_id)
    WHERE outcome = 'delivered' AND result ? 'rail_reference';
-- Payments by the reference of the rail. Not unique: a rail that gives the same reference twice is
-- an alarm (see payment_outbox_reused_references), never an error. The money has moved, and rejecting the record would
-- only make it move again. Truncated, because the length of an index entry is limited.
CREATE INDEX attempt_rail_reference ON consign.attempt (left(result->>'rail_reference', 200))
    WHERE outcome = 'delivered' AND result ? 'rail_reference';

CREATE TRIGGER append_only BEFORE UPDATE OR TRUNCATE ON consign.payment
    FOR EACH STATEMENT EXECUTE FUNCTION consign.refuse_change();
-- A payment is deleted when its message has left and its key was forgotten, not before: the key would be paid again.
CREATE FUNCTION consign.refuse_forgetting() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF EXISTS (SELECT FROM consign.message_key k WHERE k.queue = 'payments' AND k.key = OLD.outbox_id::text)
        OR EXISTS (SELECT FROM consign.message m WHERE m.id = OLD.message_id)
    THEN
        RAISE EXCEPTION 'DELETE on consign.payment rejected: its rows are append-only while their keys are kept'
            USING ERRCODE = 'CN009', HINT = 'The policy of queue payments sets how long: keep_ms, keep_keys_ms.';
    END IF;
    RETURN OLD;
END $$;
REVOKE ALL ON FUNCTION consign.refuse_forgetting() FROM PUBLIC;
CREATE TRIGGER keys_are_kept BEFORE DELETE ON consign.payment
    FOR EACH ROW EXECUTE FUNCTION consign.refuse_forgetting();
-- A deleted participant would start again at 1.
CREATE TRIGGER append_only BEFORE DELETE OR TRUNCATE ON consign.payment_participant
    FOR EACH STATEMENT EXECUTE FUNCTION consign.refuse_change();

-- What an erasure leaves of the payloads of payments.
CREATE TABLE consign.payment_erased (
    message_id    bigint PRIMARY KEY,
    amount_minor  numeric,
    currency_code text
);
CREATE TRIGGER append_only BEFORE UPDATE OR TRUNCATE ON consign.payment_erased
    FOR EACH STATEMENT EXECUTE FUNCTION consign.refuse_change();

-- The state of an attempt in the payment protocol; from the attempt alone, because attempts never
-- change. What will be tried again has a time for it; what was given up has none. What is in doubt is
-- never given up: on its last try, or without a reference, it is held. The same table as AttemptState::of
-- in the crate for payments; a test holds the two together.
CREATE FUNCTION consign.outbox_attempt_state(p_outcome consign.outcome, p_code text, p_next_due_at timestamptz)
    RETURNS consign.outbox_attempt_state
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE
        WHEN p_outcome = 'delivered' THEN 'DISPATCHED'::consign.outbox_attempt_state
        WHEN p_outcome = 'dead' THEN 'FAILED'
        WHEN p_outcome = 'uncertain' AND p_code = 'lease_expired' THEN 'ZOMBIE_REQUEUE'
        WHEN p_outcome = 'uncertain' THEN 'RETRYABLE'
        WHEN p_next_due_at IS NULL THEN 'FAILED'
        WHEN p_outcome = 'expired' THEN 'ZOMBIE_REQUEUE'
        ELSE 'RETRYABLE'
    END;
REVOKE ALL ON FUNCTION consign.outbox_attempt_state(consign.outcome, text, timestamptz) FROM PUBLIC;

CREATE FUNCTION consign.payments_policy() RETURNS jsonb
    LANGUAGE sql IMMUTABLE
    RETURN consign.default_policy() || '{
        "lease_ttl_ms": 60000,
        "attempts_max": 20,
        "retry": {"kind": "exponential", "base_ms": 1000, "factor": 2.0, "max_ms": 60000, "jitter": 0.0},
        "on_uncertain": "probe",
        "concurrency": 10,
        "timeout_ms": 30000,
        "record_begin": true,
        "presume_begun": true,
        "hold_codes": ["MISSING_RAIL_REFERENCE"]
    }'::jsonb;
REVOKE ALL ON FUNCTION consign.payments_policy() FROM PUBLIC;

-- An error message in one line, with secrets, mail addresses, account and card numbers masked but for their last digits.
-- At most 500 characters. The same steps as `shown` in the crate for payments; a test compares the two.
CREATE FUNCTION consign.payment_masked(p_text text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on
    AS $$
DECLARE
    v_is_torn boolean := length(p_text) > 2000;
BEGIN
    IF p_text IS NULL THEN
        RETURN NULL;
    END IF;
    -- Nothing longer is searched.
    p_text := left(p_text, 2000);
    -- A header: whatever its scheme, all of its line.
    p_text := regexp_replace(p_text, '(authorization[\\"'']*[ \t]*[:=])[^\r\n]*', '\1 ***', 'gi');
    p_text := regexp_replace(p_text, '(bearer)[ \t]+[^ \t\r\n"'',;]+', '\1 ***', 'gi');
    -- Named and given, as JSON (also within JSON), as a parameter, in quotes or not.
    p_text := regexp_replace(p_text, '(token|secret|passw(?:or)?d|passphrase|pwd|api[ _-]?key|\mpin)([\\"'']*[ \t]*[:=][ \t]*)'
        '(?:\\"(?:[^"\\]|\\[^"])*(?:\\")?|"(?:[^"\\]|\\.)*"?|''[^'']*''?|[^ \t\r\n"'',;&]+)', '\1\2***', 'gi');
    -- Named, and followed by what is no plain word.
    p_text := regexp_replace(p_text, '\m(basic|token|secret|passw(?:or)?d|passphrase|pwd|api[ _-]?key|pin)[ \t]+'
        '(?:"[^"]*"?|''[^'']*''?|(?:[0-9]|[^ \t\r\n"'',;:=0-9][^ \t\r\n"'',;]*[0-9=])[^ \t\r\n"'',;]*)', '\1 ***', 'gi');
    p_text := regexp_replace(p_text, '[^ \t\r\n@"''<>]+@[^ \t\r\n@"''<>]+', '***@***', 'g');
    -- An IBAN with letters after its first four characters; others are digits, see below.
    p_text := regexp_replace(p_text, '\m([A-Z]{2}[0-9]{2})(?:[ -]?[A-Z0-9]{4}){2,7}(?:[ -]?[A-Z0-9]{1,3})?\M', '\1***', 'g');
    -- Twelve digits or more, in groups or not; eight or more in a row.
    p_text := regexp_replace(p_text, '(?:[0-9][ -]?){8,}([0-9][ -]?[0-9][ -]?[0-9][ -]?[0-9])', '***\1', 'g');
    p_text := regexp_replace(p_text, '[0-9]{4,}([0-9]{4})', '***\1', 'g');
    IF v_is_torn THEN
        -- What the cut may have left of a number that would have been masked.
        p_text := left(p_text, -24);
    END IF;
    p_text := btrim(regexp_replace(p_text, '[\u0001-\u0020\u007f-\u009f\u2028\u2029]+', ' ', 'g'), ' ');
    RETURN CASE WHEN length(p_text) > 500 THEN left(p_text, 499) || '…' ELSE p_text END;
END $$;
REVOKE ALL ON FUNCTION consign.payment_masked(text) FROM PUBLIC;

-- A code as it may be kept: masked like a message, at most 128 characters. What looks like a code is not
-- searched.
CREATE FUNCTION consign.payment_masked_code(p_code text) RETURNS text
    LANGUAGE sql IMMUTABLE
    RETURN CASE WHEN p_code ~ '^[A-Za-z_.-]{0,64}[0-9]{0,5}$' THEN p_code ELSE left(consign.payment_masked(p_code), 128) END;
REVOKE ALL ON FUNCTION consign.payment_masked_code(text) FROM PUBLIC;

-- What the attempt of an operator's resolution of a payment keeps. What was paid has a reference in the rail's
-- books; an unknown outcome stays held.
CREATE FUNCTION consign.resolved_payment(p_message consign.message, p_outcome text, p_result jsonb) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on
    AS $$
BEGIN
    IF p_outcome = 'unknown' THEN
        RAISE EXCEPTION 'outcome: a payment with an unknown outcome stays held until the rail''s books show it'
            USING ERRCODE = 'CN006', DETAIL = jsonb_build_object('id', p_message.id)::text;
    ELSIF p_outcome = 'delivered' AND (jsonb_typeof(p_result) = 'object' AND p_result - 'rail_reference' = '{}'
        AND jsonb_typeof(p_result->'rail_reference') = 'string' AND p_result->>'rail_reference' ~ '\S'
        AND octet_length(p_result->>'rail_reference') <= 256) IS NOT TRUE
    THEN
        RAISE EXCEPTION 'result: a payment is dispatched only with the rail''s reference: {"rail_reference": "..."}, 1 to 256 bytes'
            USING ERRCODE = 'CN006', DETAIL = jsonb_build_object('id', p_message.id)::text;
    END IF;
    RETURN p_result;
END $$;
REVOKE ALL ON FUNCTION consign.resolved_payment(consign.message, text, jsonb) FROM PUBLIC;

-- Rejects (P7005) every settle of a payment as delivered without the rail's reference.
CREATE FUNCTION consign.payments_settled(p_queue text, p_ids bigint[], p_fence bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on
    AS $$
DECLARE
    v_id bigint;
BEGIN
    SELECT a.message_id INTO v_id FROM unnest(p_ids) WITH ORDINALITY AS u (id, ord)
        JOIN consign.attempt a ON a.message_id = u.id AND a.fence = p_fence AND a.outcome = 'delivered'
        WHERE (jsonb_typeof(a.result->'rail_reference') = 'string' AND a.result->>'rail_reference' ~ '\S'
               AND octet_length(a.result->>'rail_reference') <= 256) IS NOT TRUE
        ORDER BY u.ord LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'result: message % is a payment, and a payment is dispatched only with the rail''s reference: {"rail_reference": "..."}, 1 to 256 bytes', v_id
            USING ERRCODE = 'P7005', DETAIL = jsonb_build_object('id', v_id)::text,
                  HINT = 'Nothing was written. Report payments with consign.complete_outbox_attempt(), or '
                      'consign.hold_outbox_attempt() where the rail gave none.';
    END IF;
END $$;
REVOKE ALL ON FUNCTION consign.payments_settled(text, bigint[], bigint) FROM PUBLIC;

-- The policy of the queue, with what a caller sets. A payment in doubt is probed or held, never sent again by itself. Every
-- policy of it presumes that a worker that claims by SQL calls the rail, and holds payments without a reference.
CREATE FUNCTION consign.payments_policy_of(p_policy jsonb) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF p_policy->>'on_uncertain' = 'resend' THEN
        RAISE EXCEPTION 'policy.on_uncertain: must be probe or hold in queue payments'
            USING ERRCODE = 'CN006', HINT = 'A payment is never sent twice on a guess. Leave the field out for probe.';
    END IF;
    RETURN consign.payments_policy() || p_policy || '{"presume_begun": true}' || CASE
        WHEN jsonb_typeof(p_policy->'hold_codes') = 'array' AND NOT p_policy->'hold_codes' ? 'MISSING_RAIL_REFERENCE'
            THEN jsonb_build_object('hold_codes', p_policy->'hold_codes' || '"MISSING_RAIL_REFERENCE"')
        ELSE '{}' END;
END $$;
REVOKE ALL ON FUNCTION consign.payments_policy_of(jsonb) FROM PUBLIC;

SELECT consign.set_hook('payments', 'policy', 'consign.payments_policy_of');
SELECT consign.set_hook('payments', 'settled', 'consign.payments_settled');
SELECT consign.set_hook('payments', 'resolve', 'consign.resolved_payment');

-- Refuses a message of the queue that is no payment: it would stop every worker that claims it. By consign.enqueue
-- there is never a row for it.
CREATE FUNCTION consign.check_payment_messages(p_queue text, p_ids bigint[], p_keys text[], p_groups text[], p_payloads jsonb[],
                                       p_headers jsonb[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan
    AS $$
BEGIN
    IF EXISTS (SELECT FROM unnest(p_ids, p_keys) AS m (id, key)
                   WHERE NOT EXISTS (SELECT FROM consign.payment p WHERE p.message_id = m.id AND p.outbox_id::text = m.key))
    THEN
        RAISE EXCEPTION 'queue payments: takes payments only'
            USING ERRCODE = 'CN006', HINT = 'Use consign.enqueue_payment_outbox().';
    END IF;
END $$;
REVOKE ALL ON FUNCTION consign.check_payment_messages(text, bigint[], text[], text[], jsonb[], jsonb[]) FROM PUBLIC;
SELECT consign.set_hook('payments', 'check', 'consign.check_payment_messages');
