-- Leases: claim, renew, release, begin, expire.
--
-- A claim: claim (SQL workers) and claim_packed (the Rust store) call lease_due, which inserts the lease and calls take_due,
-- which takes messages out of batches and calls take_short_batches for the short ones. Messages whose time has passed are
-- found when the claim reads its messages, and settle_expired settles them.

-- Ends one lease: appends an attempt for every message, and returns the messages to ready in two halves, each to be
-- leased alone, so that a poison message is alone after log2(n) crashes. The loss counts as a try only for a message that
-- was alone in its lease. See Reference::end in the kernel.
--
-- A message that had begun is uncertain. One that is only presumed to have begun is treated as if it had not, but its
-- attempt records it, and the next claim marks it as in doubt. p_delay: the delay of what goes back to ready.
CREATE FUNCTION consign.end_lease(p_lease consign.lease, p_now timestamptz, p_delay interval DEFAULT '0') RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_queue    consign.queue := consign.known_queue(p_lease.queue);
    v_policy   jsonb := v_queue.policy;
    v_alone    boolean := cardinality(p_lease.ids) = 1;
    v_ids      bigint[];
    v_tries    int[];
    v_attempts int[];
    v_died     bigint[];
    v_half     int;
    v_due_at   timestamptz := p_now + p_delay;
BEGIN
    DELETE FROM consign.lease WHERE fence = p_lease.fence;
    WITH fate AS MATERIALIZED (
        SELECT e.id, e.tries + v_alone::int AS tries, e.attempts + 1 AS attempts, e.ord,
               e.id = ANY (p_lease.begun) AS begun,
               CASE WHEN e.id = ANY (p_lease.begun) AND v_policy->>'on_uncertain' = 'hold' THEN 'held'
                    WHEN NOT v_alone OR e.tries + 1 < (v_policy->>'attempts_max')::int THEN 'ready'
                    WHEN e.id = ANY (p_lease.begun) AND v_policy->>'on_uncertain' = 'probe' THEN 'held'
                    ELSE 'dead' END AS next
            FROM unnest(p_lease.ids, p_lease.tries, p_lease.attempts)
                WITH ORDINALITY AS e (id, tries, attempts, ord)),
    recorded AS (
        INSERT INTO consign.attempt (message_id, attempt_no, outcome, owner, fence, token, claimed_at,
                                     finished_at, code, result, next_due_at)
        SELECT id, attempts, CASE WHEN begun THEN 'uncertain' ELSE 'expired' END::consign.outcome, p_lease.owner,
               p_lease.fence, p_lease.token, p_lease.claimed_at, greatest(p_now, p_lease.claimed_at),
               'lease_expired', CASE WHEN p_lease.presumed_begun AND NOT begun THEN '{"may_have_begun": true}'::jsonb END,
               CASE WHEN next = 'ready' THEN v_due_at END
            FROM fate ORDER BY ord),
    died AS (
        INSERT INTO consign.dead (message_id, queue, at, attempt_no, code)
        SELECT id, p_lease.queue, p_now, attempts, 'lease_expired' FROM fate WHERE next = 'dead'
        RETURNING message_id),
    held AS (
        INSERT INTO consign.held (message_id, queue, at, reason, tries, attempts)
        SELECT id, p_lease.queue, p_now, 'uncertain', tries, attempts FROM fate WHERE next = 'held')
    SELECT array_agg(id ORDER BY ord) FILTER (WHERE next = 'ready'),
           array_agg(tries ORDER BY ord) FILTER (WHERE next = 'ready'),
           array_agg(attempts ORDER BY ord) FILTER (WHERE next = 'ready'),
           (SELECT array_agg(message_id) FROM died)
        INTO v_ids, v_tries, v_attempts, v_died FROM fate;

    v_half := (coalesce(cardinality(v_ids), 0) + 1) / 2;
    PERFORM consign.make_ready(p_lease.queue, v_due_at, v_ids[: v_half], v_tries[: v_half], v_attempts[: v_half], true, p_lease.bytes);
    PERFORM consign.make_ready(p_lease.queue, v_due_at, v_ids[v_half + 1 :], v_tries[v_half + 1 :],
                               v_attempts[v_half + 1 :], true, p_lease.bytes);
    IF v_died IS NOT NULL AND (v_policy->>'ordered')::boolean AND v_policy->>'on_dead' = 'continue' THEN
        PERFORM consign.promote_after(p_lease.queue, v_died, p_now);
    END IF;
    IF v_policy->>'alert_queue' IS NOT NULL THEN
        PERFORM consign.record_deaths(v_died, p_now);
        INSERT INTO consign.alert_event (queue, reason, count, message_id, at)
            VALUES (p_lease.queue, 'lease_lost', 1, p_lease.ids[1], p_now);
    END IF;
    IF v_queue.hooks ? 'expired' THEN
        EXECUTE format('SELECT %s($1, $2, $3)', v_queue.hooks->>'expired') USING p_lease.queue, p_lease.ids, p_lease.fence;
    END IF;
END $$;
REVOKE ALL ON FUNCTION consign.end_lease(consign.lease, timestamptz, interval) FROM PUBLIC;

-- Ends up to p_limit expired leases, oldest first, of every queue that the caller may work on.
CREATE FUNCTION consign.expire(p_limit int DEFAULT 100, OUT leases bigint, OUT messages bigint)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_now   timestamptz := consign.clock();
    v_lease consign.lease;
BEGIN
    PERFORM consign.require_read_committed();
    leases := 0;
    messages := 0;
    FOR v_lease IN
        SELECT * FROM consign.lease WHERE expires_at <= v_now AND consign.may_work(queue)
            ORDER BY fence LIMIT p_limit FOR UPDATE SKIP LOCKED
    LOOP
        PERFORM consign.end_lease(v_lease, v_now);
        leases := leases + 1;
        messages := messages + cardinality(v_lease.ids);
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION consign.expire(int) FROM PUBLIC;

CREATE TYPE consign.entries AS (ids bigint[], tries int[], attempts int[], due_at timestamptz, bytes bigint);

-- How many of the first of these messages have at most p_bytes together, and how many bytes those have. Reads at most
-- one document more than fit.
CREATE FUNCTION consign.fitting(p_ids bigint[], p_bytes bigint, OUT fits int, OUT bytes bigint)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_length bigint;
BEGIN
    fits := 0;
    bytes := 0;
    FOR v_length IN
        SELECT (SELECT octet_length(m.payload::text) + octet_length(m.headers::text) FROM consign.message m WHERE m.id = u)
            FROM unnest(p_ids) u
    LOOP
        EXIT WHEN bytes + v_length > p_bytes;
        fits := fits + 1;
        bytes := bytes + v_length;
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION consign.fitting(bigint[], bigint) FROM PUBLIC;

-- Takes up to p_limit of the oldest due messages out of their batches, and at most p_bytes except for the first.
--
-- A long batch is taken by itself, in two cheap statements. For short ones the number needed is estimated from the length
-- of the first, and only the last one is split: locking p_limit batches and returning the surplus costs three times as
-- much. Batches marked `isolated` are taken only alone. p_from is where the index scan starts; see claim.
--
-- The rest of a split batch stays locked until the transaction ends, and other claims skip it. p_in_pieces: it is returned
-- in pieces of p_limit, so that later claims of that size, in transactions that may stay open, hide only what they take.
CREATE FUNCTION consign.take_due(p_queue text, p_limit int, p_bytes bigint, p_from timestamptz, p_now timestamptz, p_in_pieces boolean)
    RETURNS consign.entries
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_taken consign.entries := ROW('{}', '{}', '{}', NULL, 0);
    v_more  consign.entries;
    v_batch record;
    v_first boolean := true;
    v_left  int;
    v_room  int;
    v_fits  int;
    v_bytes bigint;
    v_piece int;
BEGIN
    LOOP
        v_left := p_limit - cardinality(v_taken.ids);
        EXIT WHEN v_left <= 0;
        SELECT ctid AS place, due_at, batch, isolated, bytes, ids, tries, attempts, cardinality(ids) AS length INTO v_batch
            FROM consign.ready
            WHERE queue = p_queue AND due_at >= p_from AND due_at <= p_now AND (v_first OR NOT isolated)
            ORDER BY due_at, batch LIMIT 1 FOR UPDATE SKIP LOCKED;
        EXIT WHEN NOT FOUND;
        v_room := least(v_left, v_batch.length);
        v_fits := v_room;
        v_bytes := v_batch.bytes;
        -- Most messages are small: the upper bound of the batch fits, and nothing has to be counted.
        IF p_limit > 1 AND (v_bytes IS NULL OR v_bytes > p_bytes - v_taken.bytes) THEN
            SELECT f.fits, f.bytes INTO v_fits, v_bytes FROM consign.fitting(v_batch.ids[: v_room], p_bytes - v_taken.bytes) f;
            EXIT WHEN v_fits = 0 AND cardinality(v_taken.ids) > 0;
        END IF;
        IF v_batch.isolated OR v_batch.length >= v_left OR v_batch.length >= 50 OR v_fits < v_room THEN
            -- One message is taken whatever its size.
            v_left := greatest(v_fits, 1);
            IF v_batch.length <= v_left THEN
                DELETE FROM consign.ready WHERE ctid = v_batch.place;
                v_more := ROW(v_batch.ids, v_batch.tries, v_batch.attempts, NULL, v_bytes);
            ELSE
                v_piece := CASE WHEN p_in_pieces AND NOT v_batch.isolated THEN p_limit ELSE 200 END;
                UPDATE consign.ready SET ids = v_batch.ids[v_left + 1 : v_left + v_piece],
                                         tries = v_batch.tries[v_left + 1 : v_left + v_piece],
                                         attempts = v_batch.attempts[v_left + 1 : v_left + v_piece]
                    WHERE ctid = v_batch.place;
                IF v_batch.length > v_left + v_piece THEN
                    INSERT INTO consign.ready (queue, due_at, batch, isolated, bytes, ids, tries, attempts) OVERRIDING SYSTEM VALUE
                        SELECT p_queue, v_batch.due_at, v_batch.batch + f, false, v_batch.bytes, v_batch.ids[f + 1 : f + v_piece],
                               v_batch.tries[f + 1 : f + v_piece], v_batch.attempts[f + 1 : f + v_piece]
                            FROM generate_series(v_left + v_piece, v_batch.length - 1, v_piece) f;
                END IF;
                v_more := ROW(v_batch.ids[: v_left], v_batch.tries[: v_left], v_batch.attempts[: v_left], NULL, v_bytes);
            END IF;
        ELSE
            v_more := consign.take_short_batches(p_queue, v_left, (v_left + v_batch.length - 1) / v_batch.length,
                                              p_bytes - v_taken.bytes, p_from, p_now);
        END IF;
        IF v_more.ids IS NOT NULL THEN
            v_taken := ROW(v_taken.ids || v_more.ids, v_taken.tries || v_more.tries, v_taken.attempts || v_more.attempts,
                           coalesce(v_taken.due_at, v_batch.due_at), v_taken.bytes + v_more.bytes);
            EXIT WHEN v_batch.isolated OR v_fits < v_room;
            v_first := false;
        END IF;
    END LOOP;
    RETURN v_taken;
END $$;
REVOKE ALL ON FUNCTION consign.take_due(text, int, bigint, timestamptz, timestamptz, boolean) FROM PUBLIC;

-- Takes up to p_left messages of p_bytes out of at most p_batches batches, none of them isolated.
CREATE FUNCTION consign.take_short_batches(p_queue text, p_left int, p_batches int, p_bytes bigint, p_from timestamptz, p_now timestamptz)
    RETURNS consign.entries
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_places  tid[];
    v_lengths int[];
    v_ids     bigint[];
    v_sum     int;
    v_fits    int;
    v_counted boolean;
    v_more    consign.entries;
BEGIN
    -- Locked by one statement, deleted by the next: a batch that another claim split meanwhile is
    -- locked in its new form, which the snapshot of the locking statement could not delete.
    SELECT array_agg(place), array_agg(length), sum(length), CASE WHEN count(bytes) = count(*) THEN sum(bytes) END
        INTO v_places, v_lengths, v_sum, v_more.bytes
        FROM (SELECT ctid AS place, cardinality(ids) AS length, bytes FROM consign.ready
                  WHERE queue = p_queue AND due_at >= p_from AND due_at <= p_now AND NOT isolated
                  ORDER BY due_at, batch LIMIT p_batches FOR UPDATE SKIP LOCKED) picked;
    IF v_places IS NULL THEN
        RETURN v_more;
    END IF;
    v_fits := least(v_sum, p_left);
    v_counted := v_more.bytes IS NULL OR v_more.bytes > p_bytes;
    IF v_counted THEN
        v_ids := ARRAY(SELECT e.id FROM consign.ready r, unnest(r.ids) WITH ORDINALITY AS e (id, ord)
                           WHERE r.ctid = ANY (v_places) ORDER BY r.due_at, r.batch, e.ord);
        SELECT f.fits, f.bytes INTO v_fits, v_more.bytes FROM consign.fitting(v_ids[: p_left], p_bytes) f;
    END IF;
    IF v_sum > v_fits THEN
        -- Some are longer than the first, or too large: take those that fit. The next round splits the one after.
        SELECT array_agg(place ORDER BY ord) INTO v_places
            FROM (SELECT place, ord, sum(length) OVER (ORDER BY ord) AS so_far
                      FROM unnest(v_places, v_lengths) WITH ORDINALITY AS u (place, length, ord)) measured
            WHERE so_far <= v_fits;
    END IF;
    WITH gone AS (DELETE FROM consign.ready WHERE ctid = ANY (v_places) RETURNING due_at, batch, ids, tries, attempts)
    SELECT array_agg(e.id ORDER BY g.due_at, g.batch, e.ord), array_agg(e.tries ORDER BY g.due_at, g.batch, e.ord),
           array_agg(e.attempts ORDER BY g.due_at, g.batch, e.ord)
        INTO v_more.ids, v_more.tries, v_more.attempts
        FROM gone g, unnest(g.ids, g.tries, g.attempts) WITH ORDINALITY AS e (id, tries, attempts, ord);
    IF v_counted AND v_sum > v_fits AND v_more.ids IS NOT NULL THEN
        SELECT f.bytes INTO v_more.bytes FROM consign.fitting(v_more.ids, p_bytes) f;
    END IF;
    RETURN v_more;
END $$;
REVOKE ALL ON FUNCTION consign.take_short_batches(text, int, int, bigint, timestamptz, timestamptz) FROM PUBLIC;

-- Rejects a lease time above the queue's maximum.
CREATE FUNCTION consign.require_ttl(p_queue text, p_policy jsonb, p_ttl interval) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF p_ttl > interval '1 millisecond' * (p_policy->>'lease_ttl_max_ms')::bigint THEN
        RAISE EXCEPTION 'ttl: % ms is more than queue % allows, % ms', round(extract(epoch FROM p_ttl) * 1000), p_queue,
                p_policy->>'lease_ttl_max_ms'
            USING ERRCODE = 'CN006', HINT = 'Renew the lease in time, or raise lease_ttl_max_ms.';
    END IF;
END $$;
REVOKE ALL ON FUNCTION consign.require_ttl(text, jsonb, interval) FROM PUBLIC;

-- How many messages of a queue are leased. Locks its limits until the transaction ends: claims of a queue with a limit for
-- all processes wait for each other.
CREATE FUNCTION consign.count_leased(p_queue text) RETURNS int
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    INSERT INTO consign.queue_limit (queue)
        SELECT p_queue WHERE NOT EXISTS (SELECT FROM consign.queue_limit l WHERE l.queue = p_queue) ON CONFLICT (queue) DO NOTHING;
    PERFORM FROM consign.queue_limit l WHERE l.queue = p_queue FOR UPDATE;
    RETURN (SELECT coalesce(sum(cardinality(l.ids)), 0) FROM consign.lease l WHERE l.queue = p_queue);
END $$;
REVOKE ALL ON FUNCTION consign.count_leased(text) FROM PUBLIC;

-- Reserves up to p_count times at which the caller may send a message of a queue each, so that all workers together keep its
-- total_rate_per_second: the first at `first_at`, each next one `apart` later. `slots` 0: those of the next five seconds are
-- reserved, call again at `first_at`. NULLs if the queue has no such rate. The same rule as SendSlots::reserve in the kernel.
CREATE FUNCTION consign.reserve_slots(p_queue text, p_count int, OUT now timestamptz, OUT first_at timestamptz, OUT apart interval, OUT slots int)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_rate int := ((consign.known_queue(p_queue)).policy->>'total_rate_per_second')::int;
    v_us   bigint := ceil(100000000.0 / (v_rate * 97));
    v_next timestamptz;
BEGIN
    IF NOT consign.may_work(p_queue) THEN
        PERFORM consign.refuse_queue(p_queue);
    END IF;
    IF (p_count BETWEEN 1 AND 1000) IS NOT TRUE THEN
        RAISE EXCEPTION 'slots: is %; must be from 1 to 1000', coalesce(p_count::text, 'null') USING ERRCODE = 'CN006';
    END IF;
    IF v_rate IS NULL THEN
        RETURN;
    END IF;
    PERFORM consign.count_leased(p_queue);
    now := consign.clock();
    apart := interval '1 microsecond' * v_us;
    -- After the clock was set back, slots are as far ahead as they were at the last reservation.
    v_next := greatest(now, (SELECT l.slot_at - greatest(l.reserved_at - now, interval '0') FROM consign.queue_limit l WHERE l.queue = p_queue));
    slots := CASE WHEN v_next > now + interval '5 seconds' THEN 0 ELSE least(p_count, greatest(500000 / v_us, 1)) END;
    first_at := v_next - CASE slots WHEN 0 THEN interval '5 seconds' ELSE interval '0' END;
    UPDATE consign.queue_limit l SET slot_at = v_next + slots * apart, reserved_at = now WHERE l.queue = p_queue;
END $$;
REVOKE ALL ON FUNCTION consign.reserve_slots(text, int) FROM PUBLIC;

-- Leases up to p_limit of the oldest due messages of a queue; a lease of NULLs if there are none. p_presumed_begun: the
-- sink may be called without an announcement; NULL: as the queue's presume_begun says. p_in_pieces: see take_due.
-- p_bytes_max: fewer bytes than the queue's policy allows, if not NULL.
CREATE FUNCTION consign.lease_due(p_queue text, p_owner text, p_limit int, p_ttl interval, p_from timestamptz,
                                  p_presumed_begun boolean, p_in_pieces boolean, p_bytes_max bigint,
                                  OUT lease consign.lease, OUT scan_from timestamptz)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_policy jsonb;
    v_paused timestamptz;
    v_ended  boolean;
    v_now    timestamptz := consign.clock();
    v_ttl    interval;
    v_taken  consign.entries;
    v_lease  consign.lease;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM consign.require_read_committed();
    END IF;
    SELECT n.policy, n.paused_at, EXISTS (SELECT FROM consign.lease l WHERE l.queue = p_queue AND l.expires_at <= v_now)
        INTO v_policy, v_paused, v_ended FROM consign.queue n
        WHERE n.name = p_queue AND n.policy IS NOT NULL;
    IF NOT FOUND THEN
        PERFORM consign.known_queue(p_queue);
    END IF;
    v_ttl := coalesce(consign.exact(p_ttl), interval '1 millisecond' * (v_policy->>'lease_ttl_ms')::bigint);
    IF p_limit IS NULL OR p_limit NOT BETWEEN 1 AND 1000 OR v_ttl NOT BETWEEN interval '1 millisecond' AND interval '24 hours'
        OR NOT consign.is_name(p_owner, 256)
    THEN
        RAISE EXCEPTION 'claim: limit must be from 1 to 1000, ttl from 1 ms to 24 h, owner 1 to 256 bytes without control characters'
            USING ERRCODE = 'CN006';
    END IF;
    PERFORM consign.require_ttl(p_queue, v_policy, v_ttl);
    IF v_ended THEN
        FOR v_lease IN
            SELECT * FROM consign.lease l WHERE l.queue = p_queue AND l.expires_at <= v_now ORDER BY l.fence FOR UPDATE SKIP LOCKED
        LOOP
            PERFORM consign.end_lease(v_lease, v_now);
        END LOOP;
    END IF;
    IF (v_policy->>'ordered')::boolean THEN
        PERFORM consign.fill_open_heads(p_queue, v_now);
    END IF;
    IF v_paused IS NOT NULL THEN
        RETURN;
    END IF;
    IF v_policy->>'total_concurrency' IS NOT NULL THEN
        p_limit := least(p_limit, (v_policy->>'total_concurrency')::int - consign.count_leased(p_queue));
    END IF;
    -- A hint from before the clock was set back would hide what was enqueued since.
    v_taken := consign.take_due(p_queue, p_limit, least(p_bytes_max, (v_policy->>'claim_max_bytes')::bigint),
                                CASE WHEN p_from <= v_now THEN p_from ELSE '-infinity' END, v_now, p_in_pieces);
    IF cardinality(v_taken.ids) = 0 THEN
        RETURN;
    END IF;
    scan_from := v_taken.due_at;
    INSERT INTO consign.lease (claimed_at, expires_at, token, queue, owner, ids, tries, attempts, presumed_begun, bytes)
        VALUES (v_now, v_now + v_ttl, gen_random_uuid(), p_queue, p_owner, v_taken.ids, v_taken.tries, v_taken.attempts,
                coalesce(p_presumed_begun, (v_policy->>'presume_begun')::boolean), v_taken.bytes)
        RETURNING * INTO lease;
END $$;
REVOKE ALL ON FUNCTION consign.lease_due(text, text, int, interval, timestamptz, boolean, boolean, bigint) FROM PUBLIC;

-- Leases up to p_limit of the oldest due messages of a queue; no rows if there are none.
--
-- Ends the queue's expired leases first, so that a crashed worker's messages return without any other process. p_ttl
-- defaults to the queue's policy, and may not exceed its lease_ttl_max_ms.
--
-- Payloads and headers have at most the queue's claim_max_bytes and p_bytes_max; the first message is leased whatever its
-- size, and what does not fit stays ready.
--
-- p_from is a hint for busy workers: scan from batches due then. While a snapshot is held open, vacuum cannot remove the
-- index entries of claimed batches, and every claim walks over them; starting at the due_at of the claim before (returned
-- as `scan_from`) avoids that. A transaction that commits late may leave batches below the hint, so a caller that passes
-- it must scan without it now and then, and whenever nothing was found (the Rust store does).
--
-- In a queue with presume_begun every message claimed by this function is presumed to have begun.
--
-- Messages whose time has passed are settled under the lease and not returned. message_expires_at: from then on the worker
-- must not send it, and reports it dead with the code expired_before_delivery.
CREATE FUNCTION consign.claim(p_queue text, p_owner text, p_limit int, p_ttl interval DEFAULT NULL,
                              p_from timestamptz DEFAULT '-infinity', p_bytes_max bigint DEFAULT NULL)
    RETURNS TABLE (token uuid, fence bigint, claimed_at timestamptz, expires_at timestamptz, id bigint, key text,
                   "group" text, payload jsonb, headers jsonb, created_at timestamptz, attempt_no int, tries int,
                   in_doubt boolean, scan_from timestamptz, message_expires_at timestamptz)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET jit = off
    SET plan_cache_mode = force_generic_plan
    AS $$
#variable_conflict use_column
DECLARE
    v_due   record;
    v_lease consign.lease;
    v_rows  bigint;
BEGIN
    IF NOT consign.may_work(p_queue) THEN
        PERFORM consign.refuse_queue(p_queue);
    END IF;
    -- So many rounds, since all of them are one transaction; as many as in the kernel. The next call goes on.
    FOR v_round IN 1 .. 10 LOOP
        SELECT * INTO v_due FROM consign.lease_due(p_queue, p_owner, p_limit, p_ttl, p_from, NULL, true, p_bytes_max);
        v_lease := v_due.lease;
        RETURN QUERY
            SELECT v_lease.token, v_lease.fence, v_lease.claimed_at, v_lease.expires_at, m.id, m.key, m."group", m.payload,
                   m.headers, m.created_at, e.attempts + 1, e.tries, e.attempts > 0 AND consign.is_in_doubt(m.id), v_due.scan_from,
                   m.expires_at
                FROM unnest(v_lease.ids, v_lease.tries, v_lease.attempts)
                    WITH ORDINALITY AS e (id, tries, attempts, ord)
                JOIN consign.message m ON m.id = e.id AND m.id BETWEEN consign.least_id(v_lease.ids) AND consign.greatest_id(v_lease.ids)
                WHERE m.expires_at IS NULL OR m.expires_at > v_lease.claimed_at
                ORDER BY e.ord;
        GET DIAGNOSTICS v_rows = ROW_COUNT;
        EXIT WHEN v_lease.token IS NULL OR v_rows = cardinality(v_lease.ids);
        v_lease := consign.settle_expired(v_lease);
        EXIT WHEN v_lease.token IS NOT NULL;
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION consign.claim(text, text, int, interval, timestamptz, bigint) FROM PUBLIC;

-- consign.claim as one row, for drivers to which a row of fourteen columns per message costs more than the claim itself:
-- columns are arrays, and documents are lists to be put in brackets. Columns without a value are NULL; without a lease the
-- token is NULL. Messages whose time has passed are settled, as by claim; scan_from without a token: so many that another call is
-- to go on.
CREATE FUNCTION consign.claim_packed(p_queue text, p_owner text, p_limit int, p_ttl interval, p_from timestamptz, p_bytes_max bigint DEFAULT NULL,
                                     OUT token uuid, OUT fence bigint, OUT claimed_at timestamptz,
                                     OUT expires_at timestamptz, OUT scan_from timestamptz, OUT ids bigint[],
                                     OUT tries int[], OUT attempts int[], OUT in_doubt boolean[], OUT created_at timestamptz[],
                                     OUT keys text[], OUT groups text[], OUT payloads text, OUT headers text, OUT expiries timestamptz[])
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET jit = off
    SET plan_cache_mode = force_generic_plan
    AS $$
#variable_conflict use_column
DECLARE
    v_due      record;
    v_lease    consign.lease;
    v_first    bigint;
    v_last     bigint;
    v_expiring bigint;
BEGIN
    IF NOT consign.may_work(p_queue) THEN
        PERFORM consign.refuse_queue(p_queue);
    END IF;
    FOR v_round IN 1 .. 10 LOOP
        SELECT * INTO v_due FROM consign.lease_due(p_queue, p_owner, p_limit, p_ttl, p_from, false, false, p_bytes_max);
        v_lease := v_due.lease;
        IF v_lease.token IS NULL THEN
            RETURN;
        END IF;
        v_first := v_lease.ids[1];
        v_last := v_lease.ids[cardinality(v_lease.ids)];
        IF v_last - v_first = cardinality(v_lease.ids) - 1 AND v_lease.ids = ARRAY(SELECT generate_series(v_first, v_last)) THEN
            -- Consecutive ids: one range scan instead of a search for each.
            SELECT array_agg(m.created_at), CASE WHEN count(m.key) > 0 THEN array_agg(m.key) END,
                   CASE WHEN count(m."group") > 0 THEN array_agg(m."group") END,
                   string_agg(m.payload::text, ','), CASE WHEN bool_or(m.headers <> '{}') THEN string_agg(m.headers::text, ',') END,
                   count(m.expires_at)
                INTO created_at, keys, groups, payloads, headers, v_expiring
                FROM (SELECT * FROM consign.message WHERE id BETWEEN v_first AND v_last
                          AND (expires_at IS NULL OR expires_at > v_lease.claimed_at) ORDER BY id) m;
        ELSE
            SELECT array_agg(m.created_at), CASE WHEN count(m.key) > 0 THEN array_agg(m.key) END,
                   CASE WHEN count(m."group") > 0 THEN array_agg(m."group") END,
                   string_agg(m.payload::text, ','), CASE WHEN bool_or(m.headers <> '{}') THEN string_agg(m.headers::text, ',') END,
                   count(m.expires_at)
                INTO created_at, keys, groups, payloads, headers, v_expiring
                FROM (SELECT m.* FROM unnest(v_lease.ids) WITH ORDINALITY AS e (id, ord)
                          JOIN consign.message m ON m.id = e.id AND m.id BETWEEN consign.least_id(v_lease.ids) AND consign.greatest_id(v_lease.ids)
                          WHERE m.expires_at IS NULL OR m.expires_at > v_lease.claimed_at ORDER BY e.ord) m;
        END IF;
        EXIT WHEN cardinality(created_at) = cardinality(v_lease.ids);
        v_lease := consign.settle_expired(v_lease);
        EXIT WHEN v_lease.token IS NOT NULL;
    END LOOP;
    scan_from := v_due.scan_from;
    IF v_lease.token IS NULL THEN
        RETURN;
    END IF;
    token := v_lease.token;
    fence := v_lease.fence;
    claimed_at := v_lease.claimed_at;
    expires_at := v_lease.expires_at;
    ids := v_lease.ids;
    tries := v_lease.tries;
    attempts := v_lease.attempts;
    IF v_expiring > 0 THEN
        expiries := ARRAY(SELECT m.expires_at FROM unnest(v_lease.ids) WITH ORDINALITY AS e (id, ord)
            JOIN consign.message m ON m.id = e.id AND m.id BETWEEN consign.least_id(v_lease.ids) AND consign.greatest_id(v_lease.ids)
            ORDER BY e.ord);
    END IF;
    IF 0 < ANY (attempts) THEN
        in_doubt := ARRAY(SELECT e.attempts > 0 AND consign.is_in_doubt(e.id)
                              FROM unnest(ids, attempts) WITH ORDINALITY AS e (id, attempts, ord) ORDER BY e.ord);
    END IF;
END $$;
REVOKE ALL ON FUNCTION consign.claim_packed(text, text, int, interval, timestamptz, bigint) FROM PUBLIC;

-- The live lease of a token, locked; CN003 if there is none. The clock is read under the lock: waiting for it must not
-- make a lost lease look live.
CREATE FUNCTION consign.live_lease(p_token uuid) RETURNS consign.lease
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_lease consign.lease;
BEGIN
    SELECT * INTO v_lease FROM consign.lease WHERE token = p_token FOR UPDATE;
    IF NOT FOUND OR v_lease.expires_at <= consign.clock() THEN
        RAISE EXCEPTION 'lease lost: the token is unknown or its lease has expired'
            USING ERRCODE = 'CN003', HINT = 'Nothing was written. Stop working on these messages; claim again.';
    END IF;
    RETURN v_lease;
END $$;
REVOKE ALL ON FUNCTION consign.live_lease(uuid) FROM PUBLIC;

-- Rejects messages that a lease does not hold (CN004).
CREATE FUNCTION consign.require_in_lease(p_lease consign.lease, p_ids bigint[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_others bigint[] := ARRAY(SELECT DISTINCT u FROM unnest(p_ids) u WHERE u IS NULL OR NOT u = ANY (p_lease.ids) ORDER BY u);
BEGIN
    IF cardinality(v_others) > 0 THEN
        RAISE EXCEPTION 'not in this lease: messages %', v_others
            USING ERRCODE = 'CN004', DETAIL = jsonb_build_object('ids', v_others)::text,
                  HINT = 'Nothing was written. Report only messages this lease holds.';
    END IF;
END $$;
REVOKE ALL ON FUNCTION consign.require_in_lease(consign.lease, bigint[]) FROM PUBLIC;

-- Extends a lease to p_ttl from now, at most to what its queue allows; never shortens it.
CREATE FUNCTION consign.renew(p_token uuid, p_ttl interval) RETURNS timestamptz
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_lease consign.lease;
BEGIN
    IF p_ttl IS NULL OR consign.exact(p_ttl) NOT BETWEEN interval '1 millisecond' AND interval '24 hours' THEN
        RAISE EXCEPTION 'ttl: is %; must be 1 ms to 24 h', coalesce(p_ttl::text, 'null') USING ERRCODE = 'CN006';
    END IF;
    v_lease := consign.live_lease(p_token);
    PERFORM consign.require_ttl(v_lease.queue, (consign.known_queue(v_lease.queue)).policy, p_ttl);
    UPDATE consign.lease SET expires_at = greatest(expires_at, consign.clock() + p_ttl)
        WHERE fence = v_lease.fence RETURNING * INTO v_lease;
    RETURN v_lease.expires_at;
END $$;
REVOKE ALL ON FUNCTION consign.renew(uuid, interval) FROM PUBLIC;

-- Returns the messages of a lease that have not begun to ready, uncounted; returns their ids.
CREATE FUNCTION consign.release(p_token uuid) RETURNS bigint[]
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_lease    consign.lease;
    v_ids      bigint[];
    v_tries    int[];
    v_attempts int[];
BEGIN
    v_lease := consign.live_lease(p_token);
    SELECT array_agg(id ORDER BY ord), array_agg(tries ORDER BY ord), array_agg(attempts ORDER BY ord)
        INTO v_ids, v_tries, v_attempts
        FROM unnest(v_lease.ids, v_lease.tries, v_lease.attempts) WITH ORDINALITY AS e (id, tries, attempts, ord)
        WHERE NOT id = ANY (v_lease.begun);
    PERFORM consign.make_ready(v_lease.queue, consign.clock(), v_ids, v_tries, v_attempts, false, v_lease.bytes);
    PERFORM consign.shrink_lease(v_lease, v_ids);
    RETURN coalesce(v_ids, '{}');
END $$;
REVOKE ALL ON FUNCTION consign.release(uuid) FROM PUBLIC;

-- Announces that the transport call of these messages is about to start: if the lease ends now, they are uncertain rather
-- than safe to send again.
CREATE FUNCTION consign.begin(p_token uuid, p_ids bigint[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_lease consign.lease;
BEGIN
    v_lease := consign.live_lease(p_token);
    PERFORM consign.require_in_lease(v_lease, p_ids);
    UPDATE consign.lease SET begun = ARRAY(SELECT DISTINCT u FROM unnest(begun || p_ids) u ORDER BY u)
        WHERE fence = v_lease.fence;
END $$;
REVOKE ALL ON FUNCTION consign.begin(uuid, bigint[]) FROM PUBLIC;

-- How long until the queue has something to claim: zero or less if it has, NULL if nothing is scheduled. A worker sleeps
-- that long.
CREATE FUNCTION consign.until_due(p_queue text) RETURNS interval
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT least((SELECT min(due_at) FROM consign.ready WHERE queue = p_queue),
                 (SELECT min(expires_at) FROM consign.lease WHERE queue = p_queue),
                 (SELECT 'epoch'::timestamptz FROM consign.group_head t JOIN consign.waiting w USING (queue, "group")
                      WHERE t.queue = p_queue AND t.message_id IS NULL LIMIT 1)) - consign.clock()
        FROM consign.queue WHERE name = p_queue AND paused_at IS NULL AND consign.may_work(p_queue) $$;
REVOKE ALL ON FUNCTION consign.until_due(text) FROM PUBLIC;
