-- Working on payments: claim, begin, renew, release, repair. A lease covers everything that one claim
-- took: its payments share a token.

-- The error for a lease that its worker no longer has.
CREATE FUNCTION consign.refuse_lost_lease(p_reason text, p_outbox_ids uuid[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    RAISE EXCEPTION 'LEASE_LOST'
        USING ERRCODE = 'P7002', DETAIL = jsonb_build_object('reason', p_reason, 'outbox_ids', p_outbox_ids)::text,
              HINT = 'Nothing was written. Hand a result of the rail in with consign.record_late_outbox_attempt(); claim again.';
END $$;
REVOKE ALL ON FUNCTION consign.refuse_lost_lease(text, uuid[]) FROM PUBLIC;

-- The lease that a worker has under a token, locked; P7002 when it has none.
CREATE FUNCTION consign.live_payment_lease(p_token uuid, p_worker_id text, p_outbox_ids uuid[]) RETURNS consign.lease
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_lease consign.lease;
BEGIN
    SELECT * INTO v_lease FROM consign.lease l WHERE l.token = p_token AND l.queue = 'payments' FOR UPDATE;
    -- The clock is read under the lock: waiting for it must not make a lost lease look live.
    IF v_lease.token IS NULL OR v_lease.expires_at <= consign.clock() THEN
        PERFORM consign.refuse_lost_lease('unknown_or_expired', p_outbox_ids);
    ELSIF v_lease.owner IS DISTINCT FROM p_worker_id THEN
        PERFORM consign.refuse_lost_lease('another_worker', p_outbox_ids);
    END IF;
    RETURN v_lease;
END $$;
REVOKE ALL ON FUNCTION consign.live_payment_lease(uuid, text, uuid[]) FROM PUBLIC;

CREATE FUNCTION consign.check_lease_seconds(p_lease_seconds int) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF p_lease_seconds IS NULL OR p_lease_seconds NOT BETWEEN 1 AND 3600 THEN
        RAISE EXCEPTION 'p_lease_seconds: must be from 1 to 3600' USING ERRCODE = 'CN006';
    END IF;
END $$;
REVOKE ALL ON FUNCTION consign.check_lease_seconds(int) FROM PUBLIC;

CREATE FUNCTION consign.check_batch_size(p_batch_size int) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF p_batch_size IS NULL OR p_batch_size NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'p_batch_size: must be from 1 to 1000' USING ERRCODE = 'CN006';
    END IF;
END $$;
REVOKE ALL ON FUNCTION consign.check_batch_size(int) FROM PUBLIC;

-- Leases up to p_batch_size of the payments that are due, a row for each in their order; no rows when
-- there are none. What it finds expired it takes back first, on record (ZOMBIE_REQUEUE).
--
-- The rail may be called from then on: if the lease expires, the next claim marks the payment as `in_doubt`, and its worker
-- asks the rail first. With p_begin false nothing is presumed, for workers that announce each call
-- (begin_outbox_attempts).
CREATE FUNCTION consign.claim_outbox_batch(p_batch_size int, p_worker_id text, p_lease_seconds int, p_begin boolean DEFAULT true)
    RETURNS TABLE (outbox_id uuid, instruction_id text, participant_id text, sequence_id bigint, idempotency_key text,
                   rail_type text, payload jsonb, attempt_count int, lease_token uuid, lease_expires_at timestamptz,
                   in_doubt boolean, fence bigint, tenant_id uuid)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET jit = off
    SET plan_cache_mode = force_generic_plan
    AS $$
#variable_conflict use_column
DECLARE
    v_lease consign.lease;
BEGIN
    PERFORM consign.check_batch_size(p_batch_size);
    PERFORM consign.check_lease_seconds(p_lease_seconds);
    IF NOT EXISTS (SELECT FROM consign.queue n WHERE n.name = 'payments' AND n.policy IS NOT NULL) THEN
        RETURN;
    END IF;
    SELECT (d.lease).* INTO v_lease
        FROM consign.lease_due('payments', p_worker_id, p_batch_size, make_interval(secs => p_lease_seconds), '-infinity',
                               p_begin IS NOT FALSE, true, NULL) d;
    RETURN QUERY
        SELECT p.outbox_id, p.instruction_id, p.participant_id, p.sequence_id, p.idempotency_key, p.rail_type,
               m.payload->'payload', e.attempts, v_lease.token, v_lease.expires_at,
               e.attempts > 0 AND consign.is_in_doubt(m.id), v_lease.fence, p.tenant_id
            FROM unnest(v_lease.ids, v_lease.attempts) WITH ORDINALITY AS e (id, attempts, ord)
            JOIN consign.message m ON m.id = e.id
            JOIN consign.payment p ON p.message_id = e.id
            ORDER BY e.ord;
END $$;
REVOKE ALL ON FUNCTION consign.claim_outbox_batch(int, text, int, boolean) FROM PUBLIC;

-- Announces that the rail is about to be called for these payments. If the lease ends now, they are in doubt: the next
-- claim marks them `in_doubt`, and its worker asks the rail first. They cannot be released any more, and on their last try
-- they are held rather than failed.
CREATE FUNCTION consign.begin_outbox_attempts(p_lease_token uuid, p_worker_id text, p_outbox_ids uuid[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET jit = off
    AS $$
DECLARE
    v_lease consign.lease := consign.live_payment_lease(p_lease_token, p_worker_id, p_outbox_ids);
    v_ids   bigint[] := ARRAY(SELECT p.message_id FROM unnest(p_outbox_ids) u LEFT JOIN consign.payment p ON p.outbox_id = u);
BEGIN
    IF NOT v_lease.ids @> v_ids THEN
        PERFORM consign.refuse_lost_lease('not_in_lease', p_outbox_ids);
    END IF;
    PERFORM consign.begin(p_lease_token, v_ids);
END $$;
REVOKE ALL ON FUNCTION consign.begin_outbox_attempts(uuid, text, uuid[]) FROM PUBLIC;

-- Extends a lease to p_lease_seconds from now, never shortens it; returns when it ends.
CREATE FUNCTION consign.renew_outbox_lease(p_lease_token uuid, p_worker_id text, p_lease_seconds int) RETURNS timestamptz
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    PERFORM consign.check_lease_seconds(p_lease_seconds);
    PERFORM consign.live_payment_lease(p_lease_token, p_worker_id, NULL);
    RETURN consign.renew(p_lease_token, make_interval(secs => p_lease_seconds));
END $$;
REVOKE ALL ON FUNCTION consign.renew_outbox_lease(uuid, text, int) FROM PUBLIC;

-- Returns the payments of a lease that have not begun to the queue, uncounted; returns them. By a release the worker
-- states that it has not called the rail for them, whatever the claim presumed.
CREATE FUNCTION consign.release_outbox_lease(p_lease_token uuid, p_worker_id text) RETURNS SETOF uuid
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET jit = off
    AS $$
BEGIN
    PERFORM consign.live_payment_lease(p_lease_token, p_worker_id, NULL);
    RETURN QUERY SELECT p.outbox_id
        FROM unnest(consign.release(p_lease_token)) WITH ORDINALITY AS r (id, ord)
        JOIN consign.payment p ON p.message_id = r.id ORDER BY r.ord;
END $$;
REVOKE ALL ON FUNCTION consign.release_outbox_lease(uuid, text) FROM PUBLIC;

-- Ends up to p_batch_size expired leases, those that ended first before the others, a row for each
-- payment: it is due in a second with a ZOMBIE_REQUEUE on record, or has FAILED if this was its last try.
CREATE FUNCTION consign.repair_expired_leases(p_batch_size int, p_worker_id text)
    RETURNS TABLE (outbox_id uuid, attempt_no int, effective_state consign.outbox_attempt_state)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET jit = off
    AS $$
#variable_conflict use_column
DECLARE
    v_now   timestamptz := consign.clock();
    v_lease consign.lease;
BEGIN
    PERFORM consign.require_read_committed();
    PERFORM consign.check_batch_size(p_batch_size);
    IF coalesce(p_worker_id, '') = '' OR octet_length(p_worker_id) > 256 THEN
        RAISE EXCEPTION 'p_worker_id: must be 1 to 256 bytes' USING ERRCODE = 'CN006';
    END IF;
    FOR v_lease IN
        SELECT * FROM consign.lease l WHERE l.queue = 'payments' AND l.expires_at <= v_now
            ORDER BY l.expires_at, l.fence LIMIT p_batch_size FOR UPDATE SKIP LOCKED
    LOOP
        PERFORM consign.end_lease(v_lease, v_now, interval '1 second');
        RETURN QUERY
            SELECT p.outbox_id, a.attempt_no, consign.outbox_attempt_state(a.outcome, a.code, a.next_due_at)
                FROM unnest(v_lease.ids, v_lease.attempts) WITH ORDINALITY AS e (id, attempts, ord)
                JOIN consign.payment p ON p.message_id = e.id
                JOIN consign.attempt a ON a.message_id = e.id AND a.attempt_no = e.attempts + 1
                ORDER BY e.ord;
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION consign.repair_expired_leases(int, text) FROM PUBLIC;
