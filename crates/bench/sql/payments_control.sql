-- The control for payments: lease columns on the pending row, a function per completed row, as the
-- design it stands for has it. Its known defects stay, since mending them would not make it faster;
-- one that would make it fail (a row at the ceiling) is never met here.
CREATE SCHEMA consign_bench_payments;

CREATE TYPE consign_bench_payments.attempt_state AS ENUM ('DISPATCHED', 'RETRYABLE', 'FAILED', 'ZOMBIE_REQUEUE');

CREATE TABLE consign_bench_payments.payment_outbox_pending (
    outbox_id        uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    instruction_id   text NOT NULL,
    participant_id   text NOT NULL,
    sequence_id      bigint NOT NULL,
    idempotency_key  text NOT NULL,
    rail_type        text NOT NULL,
    payload          jsonb NOT NULL CHECK (jsonb_typeof(payload) = 'object'),
    attempt_count    int NOT NULL DEFAULT 0 CHECK (attempt_count >= 0),
    next_attempt_at  timestamptz NOT NULL DEFAULT now(),
    created_at       timestamptz NOT NULL DEFAULT now(),
    claimed_by       text,
    lease_token      uuid,
    lease_expires_at timestamptz,
    UNIQUE (participant_id, sequence_id),
    UNIQUE (instruction_id, idempotency_key)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX pending_due ON consign_bench_payments.payment_outbox_pending (next_attempt_at, lease_expires_at, created_at);

CREATE TABLE consign_bench_payments.payment_outbox_attempts (
    attempt_id      uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    outbox_id       uuid NOT NULL,
    instruction_id  text NOT NULL,
    participant_id  text NOT NULL,
    sequence_id     bigint NOT NULL,
    idempotency_key text NOT NULL,
    rail_type       text NOT NULL,
    payload         jsonb NOT NULL,
    attempt_no      int NOT NULL CHECK (attempt_no >= 1),
    state           consign_bench_payments.attempt_state NOT NULL,
    claimed_at      timestamptz NOT NULL DEFAULT now(),
    completed_at    timestamptz,
    rail_reference  text,
    rail_code       text,
    error_code      text,
    error_message   text,
    latency_ms      int CHECK (latency_ms >= 0),
    worker_id       text,
    created_at      timestamptz NOT NULL DEFAULT now(),
    UNIQUE (outbox_id, attempt_no)
);
CREATE UNIQUE INDEX one_terminal ON consign_bench_payments.payment_outbox_attempts (outbox_id)
    WHERE state IN ('DISPATCHED', 'FAILED');
CREATE INDEX attempts_instruction ON consign_bench_payments.payment_outbox_attempts (instruction_id, idempotency_key);

CREATE FUNCTION consign_bench_payments.claim_outbox_batch(p_batch_size int, p_worker_id text, p_lease_seconds int)
    RETURNS TABLE (outbox_id uuid, payload jsonb, attempt_count int, lease_token uuid, lease_expires_at timestamptz)
    LANGUAGE sql AS $$
    WITH due AS (
        SELECT p.outbox_id FROM consign_bench_payments.payment_outbox_pending p
            WHERE p.next_attempt_at <= now() AND (p.lease_expires_at IS NULL OR p.lease_expires_at <= now())
            ORDER BY p.next_attempt_at, p.created_at LIMIT p_batch_size FOR UPDATE SKIP LOCKED)
    UPDATE consign_bench_payments.payment_outbox_pending p
        SET claimed_by = p_worker_id, lease_token = gen_random_uuid(),
            lease_expires_at = now() + make_interval(secs => p_lease_seconds)
        FROM due WHERE p.outbox_id = due.outbox_id
        RETURNING p.outbox_id, p.payload, p.attempt_count, p.lease_token, p.lease_expires_at $$;

CREATE FUNCTION consign_bench_payments.complete_outbox_attempt(p_outbox_id uuid, p_lease_token uuid, p_worker_id text,
        p_state consign_bench_payments.attempt_state, p_rail_reference text)
    RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    v_row consign_bench_payments.payment_outbox_pending;
    v_no  int;
BEGIN
    SELECT * INTO v_row FROM consign_bench_payments.payment_outbox_pending p
        WHERE p.outbox_id = p_outbox_id AND p.claimed_by = p_worker_id AND p.lease_token = p_lease_token
            AND p.lease_expires_at > now()
        FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'LEASE_LOST' USING ERRCODE = 'P7002';
    END IF;
    SELECT coalesce(max(a.attempt_no), 0) + 1 INTO v_no
        FROM consign_bench_payments.payment_outbox_attempts a WHERE a.outbox_id = p_outbox_id;
    INSERT INTO consign_bench_payments.payment_outbox_attempts (outbox_id, instruction_id, participant_id, sequence_id,
            idempotency_key, rail_type, payload, attempt_no, state, completed_at, rail_reference, worker_id)
        VALUES (v_row.outbox_id, v_row.instruction_id, v_row.participant_id, v_row.sequence_id, v_row.idempotency_key,
                v_row.rail_type, v_row.payload, v_no, p_state, now(), p_rail_reference, p_worker_id);
    DELETE FROM consign_bench_payments.payment_outbox_pending p WHERE p.outbox_id = p_outbox_id;
    RETURN v_no;
END $$;

-- Fills it from inside the server, p_batch rows per transaction.
CREATE PROCEDURE consign_bench_payments.fill(p_prefix text, p_payments int, p_batch int)
    LANGUAGE plpgsql AS $$
BEGIN
    FOR v_from IN 1 .. p_payments BY p_batch LOOP
        INSERT INTO consign_bench_payments.payment_outbox_pending
                (instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload)
            SELECT p_prefix || '-' || n, p_prefix || '-participant-' || n % 100, n, 'key-' || n, 'PAYMENT',
                   consign_bench_payments.payload(n)
                FROM generate_series(v_from, least(v_from + p_batch - 1, p_payments)) n;
        COMMIT;
    END LOOP;
END $$;

-- What a payment carries, on both sides.
CREATE FUNCTION consign_bench_payments.payload(p_number int) RETURNS jsonb
    LANGUAGE sql IMMUTABLE AS $$
    SELECT jsonb_build_object('amount_minor', 1000 + p_number, 'currency_code', 'EUR', 'destination', 'DE02120300000000202051',
        'beneficiary_ref_hash', repeat('ab', 32)) $$;

-- Fills consign's own outbox with the same payments, through the function producers call.
CREATE PROCEDURE consign_bench_payments.fill_consign(p_prefix text, p_payments int, p_batch int)
    LANGUAGE plpgsql AS $$
BEGIN
    FOR v_from IN 1 .. p_payments BY p_batch LOOP
        PERFORM consign.enqueue_payment_outbox(p_prefix || '-' || n, p_prefix || '-participant-' || n % 100, 'key-' || n,
                                               'PAYMENT', consign_bench_payments.payload(n))
            FROM generate_series(v_from, least(v_from + p_batch - 1, p_payments)) n;
        COMMIT;
    END LOOP;
END $$;
