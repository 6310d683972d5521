-- The ledger of orders: one row per client and idempotency key; accepting orders.

-- One row per client and key: accepted, then succeeded or failed. Columns of a row that is accepted
-- through the outbox stay out of every index when it ends, so that the row can be changed in place.
--
-- requeued_at: the last requeue; the row's times to live count from there.
-- give_up_at and direct_order: only of orders sent within the request, which have no message.
-- The response is json, not jsonb: every reading must be equal byte by byte to the first response.
CREATE TABLE consign.idempo_ledger (
    first_seen_at         timestamptz NOT NULL,
    last_seen_at          timestamptz NOT NULL,
    expires_at            timestamptz NOT NULL,
    order_expires_at      timestamptz,
    requeued_at           timestamptz,
    give_up_at            timestamptz,
    outbox_id             bigint,
    http_status           int NOT NULL,
    client                text COLLATE "C" NOT NULL,
    idempotency_key       text COLLATE "C" NOT NULL,
    status                text NOT NULL CHECK (status IN ('accepted', 'succeeded', 'failed')),
    request_digest        text NOT NULL,
    result_digest         text,
    response_payload_json json,
    direct_order          jsonb,
    PRIMARY KEY (client, idempotency_key)
);
CREATE UNIQUE INDEX idempo_ledger_outbox ON consign.idempo_ledger (outbox_id) WHERE outbox_id IS NOT NULL;
CREATE INDEX idx_idempo_ledger_expires ON consign.idempo_ledger (expires_at);
CREATE INDEX idempo_ledger_first_seen ON consign.idempo_ledger (first_seen_at);
CREATE INDEX idempo_ledger_give_up ON consign.idempo_ledger (give_up_at) WHERE give_up_at IS NOT NULL;

-- `succeeded` is final, for every writer: an executed order is not taken back. Only an erasure of its message changes the response.
CREATE FUNCTION consign.refuse_reopening() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF to_jsonb(NEW) - 'response_payload_json' = to_jsonb(OLD) - 'response_payload_json' AND NEW.response_payload_json->>'erased' = 'true'
        AND EXISTS (SELECT FROM consign.erasure e WHERE e.message_id = OLD.outbox_id)
    THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'consign.idempo_ledger: succeeded is final'
        USING ERRCODE = 'CN009', HINT = 'A succeeded row never changes; a purge deletes it after it has expired.';
END $$;
REVOKE ALL ON FUNCTION consign.refuse_reopening() FROM PUBLIC;

CREATE TRIGGER succeeded_is_final BEFORE UPDATE ON consign.idempo_ledger
    FOR EACH ROW WHEN (OLD.status = 'succeeded' AND (
        NEW.status <> 'succeeded' OR NEW.http_status <> OLD.http_status OR NEW.request_digest <> OLD.request_digest
        OR NEW.result_digest IS DISTINCT FROM OLD.result_digest OR NEW.outbox_id IS DISTINCT FROM OLD.outbox_id
        OR NEW.response_payload_json::text IS DISTINCT FROM OLD.response_payload_json::text))
    EXECUTE FUNCTION consign.refuse_reopening();

-- How often a key came with another body. Beside the ledger: a conflict leaves the row as it was.
CREATE TABLE consign.idempo_conflict (
    conflicts       bigint NOT NULL,
    client          text COLLATE "C" NOT NULL,
    idempotency_key text COLLATE "C" NOT NULL,
    PRIMARY KEY (client, idempotency_key)
);

-- How many calls a client has made on a day (UTC).
CREATE TABLE consign.order_quota (
    client text COLLATE "C" NOT NULL,
    day    date NOT NULL,
    used   bigint NOT NULL,
    PRIMARY KEY (client, day)
);

-- Rejects a message of the queue that is no order of the ledger: a copy of an order would be sent a second time, and a
-- message under the key of a future order would block that order for good.
CREATE FUNCTION consign.check_orders(p_queue text, p_ids bigint[], p_keys text[], p_groups text[], p_payloads jsonb[],
                                     p_headers jsonb[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF EXISTS (SELECT FROM unnest(p_ids, p_keys) AS m (id, key)
                   WHERE NOT EXISTS (SELECT FROM consign.idempo_ledger l
                                         WHERE l.outbox_id = m.id AND l.client || '/' || l.idempotency_key = m.key))
    THEN
        RAISE EXCEPTION 'queue orders: takes orders only'
            USING ERRCODE = 'CN006', HINT = 'Use POST /do/order or consign.accept_orders().';
    END IF;
END $$;
REVOKE ALL ON FUNCTION consign.check_orders(text, bigint[], text[], text[], jsonb[], jsonb[]) FROM PUBLIC;
SELECT consign.set_hook('orders', 'check', 'consign.check_orders');

-- A row of the ledger as functions return it; sent: the order to send, while it is accepted and not new. answer: new,
-- same or conflict for an accept; valid or expired for a worker about to send; known for a look-up.
CREATE TYPE consign.order_answer AS (
    answer text, client text, idempotency_key text, request_digest text, result_digest text, status text,
    first_seen_at timestamptz, last_seen_at timestamptz, expires_at timestamptz, order_expires_at timestamptz,
    response_payload_json json, http_status int, outbox_id bigint, conflicts bigint, sent jsonb);

-- A text as JSON; NULL if it is none. Texts come from clients and brokers, and one that cannot be read
-- must not stop a settle or a list.
CREATE FUNCTION consign.json_or_null(p_text text) RETURNS json
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    RETURN p_text::json;
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION consign.json_or_null(text) FROM PUBLIC;

-- A text of digits as a number; NULL if it is none.
CREATE FUNCTION consign.plain_number(p_text text) RETURNS numeric
    LANGUAGE sql IMMUTABLE
    RETURN CASE WHEN p_text ~ '^\d{1,14}(\.\d{1,12})?$' THEN p_text::numeric END;
REVOKE ALL ON FUNCTION consign.plain_number(text) FROM PUBLIC;

-- The answer for an order that ended without one from an adapter, in the form those have; p_order as in
-- the message's payload. Without a reason code it counts as executed, though to an unknown extent.
CREATE FUNCTION consign.order_result(p_order jsonb, p_key text, p_reason_code text, p_message text, p_now timestamptz) RETURNS json
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT (jsonb_strip_nulls(jsonb_build_object(
            'status', CASE WHEN p_reason_code IS NULL THEN 'ok' ELSE 'error' END,
            'error', p_reason_code, 'message', CASE WHEN p_reason_code IS NOT NULL THEN p_message END))
        || jsonb_build_object(
            'order_id', p_order->'order_id', 'instrument', p_order->'instrument', 'side', p_order->'side',
            'requested_at', p_order->'requested_at',
            'completed_at', to_char(p_now AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
            'trace_id', p_order->'trace_id', 'idempotency_key', p_key,
            'qty_sent', consign.plain_number(p_order->>'qty'), 'price_sent', consign.plain_number(p_order->>'price'), 'fills', '[]'::jsonb, 'executed_qty', 0, 'avg_price', NULL,
            'broker', '{"name":"unknown","order_ref":null}'::jsonb, 'latency_ms', '{"queue":0,"broker_rtt":0,"total":0}'::jsonb,
            'reason_code', p_reason_code,
            'warnings', CASE jsonb_typeof(p_order->'warnings') WHEN 'array' THEN p_order->'warnings' ELSE '[]'::jsonb END
                || CASE WHEN p_reason_code IS NULL THEN jsonb_build_array(p_message) ELSE '[]'::jsonb END))::json $$;
REVOKE ALL ON FUNCTION consign.order_result(jsonb, text, text, text, timestamptz) FROM PUBLIC;

-- What is wrong with the fields of an order; NULL: nothing.
CREATE FUNCTION consign.order_fault(p_client text, p_key text, p_digest text, p_payload jsonb, p_ttl interval,
                                    p_max_age interval) RETURNS text
    LANGUAGE sql IMMUTABLE
    RETURN CASE
        WHEN (octet_length(p_client) BETWEEN 1 AND 128 AND p_client !~ '[/[:cntrl:]]') IS NOT TRUE
            THEN 'client: has ' || coalesce(octet_length(p_client), 0) || ' bytes; must be 1 to 128 without control characters and /'
        WHEN (length(p_key) BETWEEN 8 AND 64) IS NOT TRUE
            THEN 'key: has ' || coalesce(length(p_key), 0) || ' characters; must be 8 to 64'
        WHEN (p_payload->>'request_digest' = p_digest) IS NOT TRUE THEN 'payload: request_digest is not the digest of the order'
        WHEN (consign.exact(p_ttl) BETWEEN interval '1 millisecond' AND interval '366 days') IS NOT TRUE
            THEN 'ttl: is ' || coalesce(p_ttl::text, 'null') || '; must be 1 ms to a year'
        WHEN consign.exact(p_max_age) NOT BETWEEN interval '0' AND interval '366 days'
            THEN 'max_age: is ' || p_max_age::text || '; must be 0 to a year' END;
REVOKE ALL ON FUNCTION consign.order_fault(text, text, text, jsonb, interval, interval) FROM PUBLIC;

-- Fails orders sent within a request for which no result was recorded in time: their outcome is unknown. A locked row is
-- skipped: it is being closed, and a purge must not wait for that.
CREATE FUNCTION consign.give_up_orders(p_clients text[], p_keys text[], p_now timestamptz) RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_count bigint := 0;
    v_order record;
BEGIN
    FOR v_order IN SELECT o.client, o.key FROM unnest(p_clients, p_keys) AS o (client, key) LOOP
        PERFORM FROM consign.idempo_ledger l
            WHERE l.client = v_order.client AND l.idempotency_key = v_order.key AND l.status = 'accepted' AND l.give_up_at <= p_now
            FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            CONTINUE;
        END IF;
        UPDATE consign.idempo_ledger l SET
                status = 'failed', http_status = 504, give_up_at = NULL,
                response_payload_json = consign.order_result(l.direct_order, l.idempotency_key, 'BROKER_TIMEOUT',
                    'no result was recorded in time: whether the order was executed is unknown', p_now)
            WHERE l.client = v_order.client AND l.idempotency_key = v_order.key AND l.status = 'accepted' AND l.give_up_at <= p_now;
        IF FOUND THEN
            v_count := v_count + 1;
        END IF;
    END LOOP;
    RETURN v_count;
END $$;
REVOKE ALL ON FUNCTION consign.give_up_orders(text[], text[], timestamptz) FROM PUBLIC;

-- What the ledger holds about keys, in their order; a key without a row is left out. p_new: the ids,
-- out of p_ids, of those that this call has entered.
CREATE FUNCTION consign.known_orders(p_clients text[], p_keys text[], p_digests text[], p_ids bigint[], p_new bigint[])
    RETURNS SETOF consign.order_answer
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
    -- Made while the ledger is empty, a plan that reads all of it would be kept when it is not.
    SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET jit = off
    SET plan_cache_mode = force_generic_plan
    AS $$
BEGIN
    RETURN QUERY
        SELECT CASE WHEN o.id = ANY (p_new) THEN 'new' WHEN l.request_digest = o.digest THEN 'same' ELSE 'conflict' END,
               l.client, l.idempotency_key, l.request_digest, l.result_digest, l.status, l.first_seen_at, l.last_seen_at,
               l.expires_at, l.order_expires_at, l.response_payload_json, l.http_status, l.outbox_id, coalesce(c.conflicts, 0),
               CASE WHEN l.status = 'accepted' AND (o.id = ANY (p_new)) IS NOT TRUE THEN coalesce(
                   l.direct_order, (SELECT m.payload->'order' FROM consign.message m WHERE m.id = l.outbox_id)) END
            FROM unnest(p_clients, p_keys, p_digests, p_ids) WITH ORDINALITY AS o (client, key, digest, id, ord)
            JOIN consign.idempo_ledger l ON l.client = o.client AND l.idempotency_key = o.key
            LEFT JOIN consign.idempo_conflict c ON c.client = l.client AND c.idempotency_key = l.idempotency_key
            ORDER BY o.ord;
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM consign.require_current_ranges(ARRAY(
            SELECT l.outbox_id FROM unnest(p_clients, p_keys) AS o (client, key)
                JOIN consign.idempo_ledger l ON l.client = o.client AND l.idempotency_key = o.key
                WHERE l.status = 'accepted' AND l.outbox_id IS NOT NULL));
    END IF;
END $$;
REVOKE ALL ON FUNCTION consign.known_orders(text[], text[], text[], bigint[], bigint[]) FROM PUBLIC;

-- Records that keys were repeated: counts conflicts, gives up overdue orders, and updates last_seen_at once a minute.
-- Returns whether anything was written; a replay within the minute writes nothing at all.
CREATE FUNCTION consign.note_replays(p_answers consign.order_answer[], p_now timestamptz) RETURNS boolean
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_written boolean := false;
BEGIN
    -- First, for the order of locks: other transactions wait for conflicts while they hold rows of the ledger.
    IF EXISTS (SELECT FROM unnest(p_answers) a WHERE a.answer = 'same' AND a.status = 'accepted' AND a.outbox_id IS NULL) THEN
        v_written := consign.give_up_orders(array_agg(a.client), array_agg(a.idempotency_key), p_now) > 0
            FROM unnest(p_answers) a WHERE a.answer = 'same' AND a.status = 'accepted' AND a.outbox_id IS NULL;
    END IF;
    INSERT INTO consign.idempo_conflict AS c (client, idempotency_key, conflicts)
        SELECT a.client, a.idempotency_key, count(*) FROM unnest(p_answers) a WHERE a.answer = 'conflict'
            GROUP BY a.client, a.idempotency_key ORDER BY a.client COLLATE "C", a.idempotency_key COLLATE "C"
        ON CONFLICT (client, idempotency_key) DO UPDATE SET conflicts = c.conflicts + excluded.conflicts;
    v_written := FOUND OR v_written;
    -- Last, and without waiting: a settle may hold locks on these rows, taken in another order.
    UPDATE consign.idempo_ledger l SET last_seen_at = p_now
        FROM (SELECT k.client, k.idempotency_key FROM consign.idempo_ledger k
                  JOIN (SELECT DISTINCT a.client, a.idempotency_key FROM unnest(p_answers) a
                            WHERE a.answer = 'same' AND a.last_seen_at <= p_now - interval '1 minute') s
                      ON s.client = k.client AND s.idempotency_key = k.idempotency_key
                  FOR NO KEY UPDATE OF k SKIP LOCKED) stale
        WHERE l.client = stale.client AND l.idempotency_key = stale.idempotency_key;
    RETURN FOUND OR v_written;
END $$;
REVOKE ALL ON FUNCTION consign.note_replays(consign.order_answer[], timestamptz) FROM PUBLIC;

-- Enqueues messages of orders under the ids they were entered with.
CREATE FUNCTION consign.enqueue_orders(p_ids bigint[], p_clients text[], p_keys text[], p_payloads jsonb[], p_headers jsonb[])
    RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_keys  text[] := ARRAY[p_clients[1] || '/' || p_keys[1]];
    v_twice bigint;
BEGIN
    IF cardinality(p_keys) > 1 THEN
        v_keys := ARRAY(SELECT o.client || '/' || o.key FROM unnest(p_clients, p_keys) AS o (client, key));
    END IF;
    SELECT e.ord INTO v_twice
        FROM consign.enqueue_numbered('orders', p_ids, p_payloads, v_keys, NULL, p_headers, NULL, NULL, p_ids, false)
            WITH ORDINALITY AS e (id, duplicate, state, ord)
        WHERE e.duplicate LIMIT 1;
    -- A message of that key without a row in the ledger was inserted around the ledger: its client is unknown.
    IF FOUND THEN
        PERFORM consign.refuse_conflict('orders', v_keys[v_twice], NULL);
    END IF;
END $$;
REVOKE ALL ON FUNCTION consign.enqueue_orders(bigint[], text[], text[], jsonb[], jsonb[]) FROM PUBLIC;

-- The rest of accept_orders once some of the keys were known: those entered have the ids p_ids reserved
-- for them.
CREATE FUNCTION consign.accept_among_known(p_ids bigint[], p_clients text[], p_keys text[], p_digests text[],
                                           p_payloads jsonb[], p_headers jsonb[], p_now timestamptz)
    RETURNS SETOF consign.order_answer
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_new     bigint[];
    v_answers consign.order_answer[];
    v_again   consign.order_answer[];
    v_fresh   record;
BEGIN
    v_new := ARRAY(SELECT l.outbox_id FROM consign.idempo_ledger l WHERE l.outbox_id = ANY (p_ids));
    v_answers := ARRAY(SELECT k FROM consign.known_orders(p_clients, p_keys, p_digests, p_ids, v_new) k);
    IF cardinality(v_answers) < cardinality(p_ids) THEN
        RETURN;
    END IF;
    IF cardinality(v_new) > 0 THEN
        SELECT array_agg(o.id ORDER BY o.id) AS ids, array_agg(o.client ORDER BY o.id) AS clients,
               array_agg(o.key ORDER BY o.id) AS keys, array_agg(o.payload ORDER BY o.id) AS payloads,
               CASE WHEN p_headers IS NOT NULL THEN array_agg(o.headers ORDER BY o.id) END AS headers
            INTO v_fresh
            FROM unnest(p_ids, p_clients, p_keys, p_payloads, p_headers) AS o (id, client, key, payload, headers)
            WHERE o.id = ANY (v_new);
        PERFORM consign.enqueue_orders(v_fresh.ids, v_fresh.clients, v_fresh.keys, v_fresh.payloads, v_fresh.headers);
    END IF;
    IF consign.note_replays(v_answers, p_now) THEN
        v_again := ARRAY(SELECT k FROM consign.known_orders(p_clients, p_keys, p_digests, p_ids, v_new) k);
    END IF;
    -- A row that a purge has deleted since is returned as it was: this call precedes the purge.
    RETURN QUERY SELECT * FROM unnest(CASE WHEN cardinality(v_again) = cardinality(v_answers) THEN v_again ELSE v_answers END);
END $$;
REVOKE ALL ON FUNCTION consign.accept_among_known(bigint[], text[], text[], text[], jsonb[], jsonb[], timestamptz) FROM PUBLIC;

-- Accepts orders: for each a row of the ledger and a message of the queue `orders`, all or none. A row
-- per order in the order given. A key that is there already writes no message and is `same` or, with
-- another digest, `conflict`; a key twice in one call is treated as if it came later.
--
-- Every statement here costs about as much as writing a row, so the usual case, all keys new, has as few
-- as possible.
CREATE FUNCTION consign.accept_orders(p_clients text[], p_keys text[], p_digests text[], p_payloads jsonb[],
                                      p_headers jsonb[], p_ttls interval[], p_max_ages interval[])
    RETURNS SETOF consign.order_answer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET jit = off
    SET plan_cache_mode = force_generic_plan
    AS $$
DECLARE
    v_now   timestamptz := consign.clock();
    v_ids   bigint[];
    v_count int := coalesce(cardinality(p_keys), 0);
    v_new   int;
    v_nth   bigint;
    v_fault text;
BEGIN
    IF v_count = 0 THEN
        RETURN;
    END IF;
    IF num_nulls(p_clients, p_digests, p_payloads, p_ttls) > 0 OR cardinality(p_clients) <> v_count
        OR cardinality(p_digests) <> v_count OR cardinality(p_payloads) <> v_count OR cardinality(p_ttls) <> v_count
        OR cardinality(p_headers) <> v_count OR cardinality(p_max_ages) <> v_count
    THEN
        RAISE EXCEPTION 'orders: every array must be as long as the keys; headers and ages may be NULL' USING ERRCODE = 'CN006';
    END IF;
    v_ids := consign.reserve_ids(v_count);
    LOOP
        INSERT INTO consign.idempo_ledger (first_seen_at, last_seen_at, expires_at, order_expires_at, outbox_id, http_status,
                                           client, idempotency_key, status, request_digest)
            SELECT v_now, v_now, v_now + o.ttl, v_now + o.max_age, o.id, 201, o.client, o.key, 'accepted', o.digest
                FROM unnest(v_ids, p_clients, p_keys, p_digests, p_payloads, p_ttls, p_max_ages)
                    AS o (id, client, key, digest, payload, ttl, max_age)
                WHERE consign.order_fault(o.client, o.key, o.digest, o.payload, o.ttl, o.max_age) IS NULL
                -- Keys in one order everywhere, or two producers could wait for each other.
                ORDER BY o.client COLLATE "C", o.key COLLATE "C", o.id
            ON CONFLICT (client, idempotency_key) DO NOTHING;
        GET DIAGNOSTICS v_new = ROW_COUNT;
        IF v_new = v_count THEN
            PERFORM consign.enqueue_orders(v_ids, p_clients, p_keys, p_payloads, p_headers);
            RETURN QUERY
                SELECT 'new', o.client, o.key, o.digest, NULL::text, 'accepted', v_now, v_now, v_now + o.ttl, v_now + o.max_age,
                       NULL::json, 201, o.id, 0::bigint, NULL::jsonb
                    FROM unnest(v_ids, p_clients, p_keys, p_digests, p_ttls, p_max_ages)
                        AS o (id, client, key, digest, ttl, max_age);
            RETURN;
        END IF;
        SELECT o.nth - 1, f.fault INTO v_nth, v_fault
            FROM unnest(p_clients, p_keys, p_digests, p_payloads, p_ttls, p_max_ages)
                WITH ORDINALITY AS o (client, key, digest, payload, ttl, max_age, nth),
                consign.order_fault(o.client, o.key, o.digest, o.payload, o.ttl, o.max_age) AS f (fault)
            WHERE f.fault IS NOT NULL ORDER BY o.nth LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION 'orders: order % of the call: %', v_nth, v_fault USING ERRCODE = 'CN006';
        END IF;
        RETURN QUERY SELECT * FROM consign.accept_among_known(v_ids, p_clients, p_keys, p_digests, p_payloads, p_headers, v_now);
        -- No row is returned if a purge deleted one between the two statements: then its key is free.
        EXIT WHEN FOUND;
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION consign.accept_orders(text[], text[], text[], jsonb[], jsonb[], interval[], interval[]) FROM PUBLIC;

-- Accepts an order that its caller sends within the request: a row without a message.
CREATE FUNCTION consign.open_direct_order(p_client text, p_key text, p_digest text, p_payload jsonb, p_ttl interval,
                                          p_give_up_after interval) RETURNS consign.order_answer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_now    timestamptz := consign.clock();
    v_new    bigint[] := '{}';
    v_answer consign.order_answer;
    v_again  consign.order_answer;
    v_fault  text;
BEGIN
    v_fault := consign.order_fault(p_client, p_key, p_digest, p_payload, p_ttl, NULL);
    IF v_fault IS NOT NULL THEN
        RAISE EXCEPTION 'orders: %', v_fault USING ERRCODE = 'CN006';
    END IF;
    IF coalesce(consign.exact(p_give_up_after) NOT BETWEEN interval '1 millisecond' AND interval '1 day', true) THEN
        RAISE EXCEPTION 'give_up_after: must be from 1 ms to a day' USING ERRCODE = 'CN006';
    END IF;
    LOOP
        INSERT INTO consign.idempo_ledger (first_seen_at, last_seen_at, expires_at, give_up_at, http_status, client,
                                           idempotency_key, status, request_digest, direct_order)
            VALUES (v_now, v_now, v_now + p_ttl, v_now + p_give_up_after, 201, p_client, p_key, 'accepted', p_digest,
                    p_payload->'order')
            ON CONFLICT (client, idempotency_key) DO NOTHING;
        v_new := CASE WHEN FOUND THEN ARRAY[0] ELSE '{}' END;
        SELECT * INTO v_answer FROM consign.known_orders(ARRAY[p_client], ARRAY[p_key], ARRAY[p_digest], ARRAY[0], v_new);
        EXIT WHEN FOUND;
    END LOOP;
    IF v_answer.answer <> 'new' AND consign.note_replays(ARRAY[v_answer], v_now) THEN
        SELECT * INTO v_again FROM consign.known_orders(ARRAY[p_client], ARRAY[p_key], ARRAY[p_digest], ARRAY[0], v_new);
        -- A row that a purge has deleted since is returned as it was: this call precedes the purge.
        v_answer := CASE WHEN FOUND THEN v_again ELSE v_answer END;
    END IF;
    RETURN v_answer;
END $$;
REVOKE ALL ON FUNCTION consign.open_direct_order(text, text, text, jsonb, interval, interval) FROM PUBLIC;

-- Records what came of an order sent within the request, unless its time was up; answers with the row
-- as it then is, if there is one. Only `accepted` changes, and only with the same digest.
CREATE FUNCTION consign.close_direct_order(p_client text, p_key text, p_digest text, p_status text, p_http_status int,
                                           p_result_digest text, p_response json) RETURNS SETOF consign.order_answer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF (p_status IN ('succeeded', 'failed') AND p_http_status BETWEEN 100 AND 599 AND p_response IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION 'ended: status must be succeeded or failed, http_status from 100 to 599, with a response'
            USING ERRCODE = 'CN006';
    END IF;
    -- The clock is read under the lock: waiting for it must not revive an order that was given up.
    PERFORM FROM consign.idempo_ledger l WHERE l.client = p_client AND l.idempotency_key = p_key FOR NO KEY UPDATE;
    PERFORM consign.give_up_orders(ARRAY[p_client], ARRAY[p_key], consign.clock());
    UPDATE consign.idempo_ledger l SET
            status = p_status, http_status = p_http_status, result_digest = p_result_digest, response_payload_json = p_response,
            give_up_at = NULL
        WHERE l.client = p_client AND l.idempotency_key = p_key AND l.status = 'accepted' AND l.outbox_id IS NULL
            AND l.request_digest = p_digest;
    RETURN QUERY SELECT * FROM consign.order_entry(p_client, p_key);
END $$;
REVOKE ALL ON FUNCTION consign.close_direct_order(text, text, text, text, int, text, json) FROM PUBLIC;

-- One row, `known`; none if the key is free.
CREATE FUNCTION consign.order_entry(p_client text, p_key text) RETURNS SETOF consign.order_answer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_answer consign.order_answer;
BEGIN
    FOR v_answer IN SELECT * FROM consign.known_orders(ARRAY[p_client], ARRAY[p_key], '{}', ARRAY[0], '{}') LOOP
        IF v_answer.status = 'accepted' AND v_answer.outbox_id IS NULL
            AND consign.give_up_orders(ARRAY[p_client], ARRAY[p_key], consign.clock()) > 0
        THEN
            SELECT * INTO v_answer FROM consign.known_orders(ARRAY[p_client], ARRAY[p_key], '{}', ARRAY[0], '{}');
        END IF;
        v_answer.answer := 'known';
        RETURN NEXT v_answer;
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION consign.order_entry(text, text) FROM PUBLIC;

-- One row for a worker that is about to send: `expired` if the order's time is over, else `valid`.
CREATE FUNCTION consign.verify_order(p_client text, p_key text) RETURNS SETOF consign.order_answer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_answer consign.order_answer;
BEGIN
    FOR v_answer IN SELECT * FROM consign.order_entry(p_client, p_key) LOOP
        v_answer.answer := CASE WHEN v_answer.order_expires_at <= consign.clock() THEN 'expired' ELSE 'valid' END;
        RETURN NEXT v_answer;
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION consign.verify_order(text, text) FROM PUBLIC;

-- Takes up to p_want calls out of a client's quota of the day (UTC); answers how many it got.
CREATE FUNCTION consign.take_order_quota(p_client text, p_want bigint, p_per_day bigint) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_day  date := (consign.clock() AT TIME ZONE 'UTC')::date;
    v_used bigint;
    v_got  bigint;
BEGIN
    IF (octet_length(p_client) BETWEEN 1 AND 128 AND p_want >= 0 AND p_per_day >= 0) IS NOT TRUE THEN
        RAISE EXCEPTION 'quota: client must be 1 to 128 bytes, numbers not negative' USING ERRCODE = 'CN006';
    END IF;
    INSERT INTO consign.order_quota (client, day, used) VALUES (p_client, v_day, 0) ON CONFLICT (client, day) DO NOTHING;
    SELECT q.used INTO v_used FROM consign.order_quota q WHERE q.client = p_client AND q.day = v_day FOR UPDATE;
    v_got := greatest(least(p_want, p_per_day - v_used), 0);
    IF v_got > 0 THEN
        UPDATE consign.order_quota q SET used = v_used + v_got WHERE q.client = p_client AND q.day = v_day;
    END IF;
    RETURN v_got;
END $$;
REVOKE ALL ON FUNCTION consign.take_order_quota(text, bigint, bigint) FROM PUBLIC;
