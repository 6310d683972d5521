-- The hooks of the queue `orders`: whatever ends a message of an order or requeues one (a settle, an expiry, a requeue, a
-- redrive, a resolution) changes its row of the ledger in the same transaction.

-- How an order ended, by the result of an attempt; NULLs if the result is unreadable.
CREATE FUNCTION consign.order_ended(p_result jsonb, OUT http_status int, OUT result_digest text, OUT exec_result json)
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF jsonb_typeof(p_result->'exec_result') = 'string' AND jsonb_typeof(p_result->'result_digest') = 'string'
        AND consign.is_between(p_result->'http_status', 100, 599)
    THEN
        exec_result := consign.json_or_null(p_result->>'exec_result');
        IF exec_result IS NOT NULL THEN
            http_status := (p_result->>'http_status')::numeric::int;
            result_digest := p_result->>'result_digest';
        END IF;
    END IF;
END $$;
REVOKE ALL ON FUNCTION consign.order_ended(jsonb) FROM PUBLIC;

-- How an order ends with an attempt of its message, which is dead if p_dead is not NULL. No row while the order goes on,
-- where a delivery has no code (`doctor` finds those), and for a conflict, where the ledger's row is about another
-- request. reason, message: for the response if the attempt's result is unreadable.
CREATE FUNCTION consign.order_end(p_attempt consign.attempt, p_dead consign.dead)
    RETURNS TABLE (status text, http_status int, result_digest text, exec_result json, reason text, message text, at timestamptz)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_ended    record;
    v_resolved boolean := false;
    v_in_doubt boolean := false;
BEGIN
    IF p_attempt.outcome = 'delivered' AND p_attempt.code IS NOT NULL THEN
        status := 'succeeded';
        at := p_attempt.finished_at;
    ELSIF p_dead.code <> 'IDEMPOTENCY_CONFLICT' THEN
        status := 'failed';
        at := p_dead.at;
        -- The sink reports `dead` with an end of its own only if that is certain, and so does an operator.
        v_resolved := p_dead.code = 'resolved' AND p_attempt.outcome = 'dead';
        -- As consign.is_in_doubt decides, except for a `dead` without an end of the order.
        v_in_doubt := NOT v_resolved
            AND NOT (p_attempt.outcome = 'dead' AND (consign.order_ended(p_attempt.result)).http_status IS NOT NULL)
            AND coalesce((SELECT a.outcome = 'uncertain' FROM consign.attempt a
                              WHERE a.message_id = p_attempt.message_id AND a.outcome <> 'expired'
                                  AND NOT (a.attempt_no = p_attempt.attempt_no AND a.outcome = 'dead')
                              ORDER BY a.attempt_no DESC LIMIT 1), false);
    ELSE
        RETURN;
    END IF;
    -- An order that may have been executed is reported so, whatever failed last.
    SELECT e.* INTO v_ended FROM consign.order_ended(p_attempt.result) e WHERE NOT v_in_doubt OR e.http_status = 504;
    reason := CASE WHEN v_in_doubt THEN 'BROKER_TIMEOUT' WHEN v_resolved THEN 'BROKER_REJECTED'
                   WHEN status = 'failed' THEN 'INTERNAL_ERROR' END;
    message := CASE WHEN v_in_doubt THEN 'the order may have been executed: the outcome of its last send is unknown'
                    WHEN v_resolved THEN 'the order was not executed: an operator found out after its outcome had been in doubt'
                    ELSE 'the order ended without a result from its broker' END;
    http_status := coalesce(v_ended.http_status, CASE reason WHEN 'BROKER_TIMEOUT' THEN 504 WHEN 'BROKER_REJECTED' THEN 400
                                                             WHEN 'INTERNAL_ERROR' THEN 500 ELSE 200 END);
    result_digest := v_ended.result_digest;
    exec_result := v_ended.exec_result;
    RETURN NEXT;
END $$;
REVOKE ALL ON FUNCTION consign.order_end(consign.attempt, consign.dead) FROM PUBLIC;

-- Ends the orders whose messages ended under this fence. A row that is final or about another request is left alone.
CREATE FUNCTION consign.end_orders(p_queue text, p_ids bigint[], p_fence bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    -- Made while the ledger is empty, a plan that reads all of it would be kept when it is not.
    SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET jit = off
    SET plan_cache_mode = force_generic_plan
    AS $$
BEGIN
    UPDATE consign.idempo_ledger l SET
            status = e.status, http_status = e.http_status, result_digest = e.result_digest,
            response_payload_json = coalesce(e.exec_result, consign.order_result(
                m.payload->'order', l.idempotency_key, e.reason, e.message, e.at))
        FROM unnest(p_ids) AS i (id)
        JOIN consign.attempt a ON a.message_id = i.id AND a.fence = p_fence
        LEFT JOIN consign.dead d ON d.message_id = i.id AND d.attempt_no = a.attempt_no
        CROSS JOIN LATERAL consign.order_end(a, d) e
        JOIN consign.message m ON m.id = i.id
        WHERE l.outbox_id = i.id AND l.status = 'accepted' AND l.request_digest = m.payload->>'request_digest';
END $$;
REVOKE ALL ON FUNCTION consign.end_orders(text, bigint[], bigint) FROM PUBLIC;
SELECT consign.set_hook('orders', 'settled', 'consign.end_orders');
SELECT consign.set_hook('orders', 'expired', 'consign.end_orders');

-- Accepts the orders of requeued messages again. A fresh start has the times to live that the first one had.
CREATE FUNCTION consign.reopen_orders(p_queue text, p_ids bigint[], p_action text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET jit = off
    SET plan_cache_mode = force_generic_plan
    AS $$
DECLARE
    v_now timestamptz := consign.clock();
BEGIN
    IF p_action <> 'requeue' THEN
        RETURN;
    END IF;
    UPDATE consign.idempo_ledger l SET
            status = 'accepted', http_status = 201, result_digest = NULL, response_payload_json = NULL,
            expires_at = v_now + (l.expires_at - coalesce(l.requeued_at, l.first_seen_at)),
            order_expires_at = v_now + (l.order_expires_at - coalesce(l.requeued_at, l.first_seen_at)),
            requeued_at = v_now
        FROM unnest(p_ids) AS i (id) JOIN consign.message m ON m.id = i.id
        WHERE l.outbox_id = i.id AND l.status = 'failed' AND l.request_digest = m.payload->>'request_digest';
END $$;
REVOKE ALL ON FUNCTION consign.reopen_orders(text, bigint[], text) FROM PUBLIC;
SELECT consign.set_hook('orders', 'moved', 'consign.reopen_orders');

-- An amount above 0, a number or text, with at most 14 digits before and 12 after the point; NULL if it is none.
CREATE FUNCTION consign.order_amount(p_value jsonb) RETURNS numeric
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on
    AS $$
    SELECT n.amount FROM (SELECT CASE WHEN jsonb_typeof(p_value) = 'number' THEN (p_value #>> '{}')::numeric
                                      WHEN jsonb_typeof(p_value) = 'string' AND p_value #>> '{}' ~ '^\d{1,14}(\.\d{1,12})?$'
                                      THEN (p_value #>> '{}')::numeric END AS amount) n
        WHERE n.amount > 0 AND n.amount < 1e14 AND scale(trim_scale(n.amount)) <= 12 $$;
REVOKE ALL ON FUNCTION consign.order_amount(jsonb) FROM PUBLIC;

-- A time in UTC as in RFC 3339, to the microsecond; NULL if it is none.
CREATE FUNCTION consign.order_time(p_value jsonb) RETURNS timestamptz
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on SET timezone = 'UTC'
    AS $$
BEGIN
    RETURN CASE WHEN p_value #>> '{}' ~ '^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]00:00)$' THEN (p_value #>> '{}')::timestamptz END;
EXCEPTION WHEN data_exception THEN
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION consign.order_time(jsonb) FROM PUBLIC;

-- When a stored order was requested. The server writes nanoseconds; PostgreSQL keeps microseconds.
CREATE FUNCTION consign.order_requested_at(p_order jsonb) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on
    AS $$ SELECT consign.order_time(to_jsonb(regexp_replace(p_order->>'requested_at', '(\.\d{6})\d+', '\1'))) $$;
REVOKE ALL ON FUNCTION consign.order_requested_at(jsonb) FROM PUBLIC;

-- The fills of a person's statement in their order; NULLs where a value is none.
CREATE FUNCTION consign.order_fills(p_fills jsonb) RETURNS TABLE (ord bigint, px numeric, qty numeric, ts timestamptz, shown text)
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT f.ord, f.px, f.qty, f.ts,
           rtrim(rtrim(to_char(f.ts AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), '0'), '.') || 'Z'
        FROM (SELECT e.ord, consign.order_amount(e.fill->'px') AS px, consign.order_amount(e.fill->'qty') AS qty,
                     consign.order_time(e.fill->'ts') AS ts
                  FROM jsonb_array_elements(p_fills) WITH ORDINALITY AS e (fill, ord)) f $$;
REVOKE ALL ON FUNCTION consign.order_fills(jsonb) FROM PUBLIC;

-- What is wrong with an operator's statement about the execution of an order; NULL: nothing. The rules of a broker's
-- answer; apps/orders has the same ones for the store in SQLite.
CREATE FUNCTION consign.order_statement_fault(p_payload jsonb, p_result jsonb) RETURNS text
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on
    AS $$
DECLARE
    v_ordered   CONSTANT numeric := consign.order_amount(p_payload->'order'->'qty');
    v_requested CONSTANT timestamptz := consign.order_requested_at(p_payload->'order');
    v_fills     record;
BEGIN
    IF p_result IS NULL THEN
        RETURN 'an order is executed only with its result: order_ref and fills (px, qty, ts), as in the broker''s books; without them resolve it as dead (not executed) or unknown';
    ELSIF jsonb_typeof(p_result) <> 'object' THEN
        RETURN 'must be an object';
    ELSIF p_result - ARRAY['order_ref', 'fills', 'avg_price'] <> '{}' THEN
        RETURN 'unknown field; known fields: order_ref, fills, avg_price';
    ELSIF (jsonb_typeof(p_result->'order_ref') = 'string' AND length(p_result->>'order_ref') <= 256
           AND p_result->>'order_ref' ~ '\S' AND p_result->>'order_ref' !~ '[[:cntrl:]]') IS NOT TRUE THEN
        RETURN 'order_ref must be the broker''s name for the order, 1 to 256 characters';
    ELSIF coalesce(jsonb_typeof(p_result->'fills') <> 'array', true) OR jsonb_array_length(p_result->'fills') NOT BETWEEN 1 AND 1000 THEN
        RETURN 'fills must be a list of 1 to 1000';
    ELSIF EXISTS (SELECT FROM jsonb_array_elements(p_result->'fills') f
                      WHERE CASE jsonb_typeof(f) WHEN 'object' THEN f - ARRAY['px', 'qty', 'ts'] <> '{}' ELSE true END) THEN
        RETURN 'fills must be objects of px, qty and ts';
    END IF;
    SELECT sum(f.qty) AS qty, sum(f.px * f.qty)::numeric(60, 24) / sum(f.qty) AS average, max(f.ts) AS last,
           min(f.ord) FILTER (WHERE num_nulls(f.px, f.qty, f.ts) > 0) AS bad
        INTO v_fills FROM consign.order_fills(p_result->'fills') f;
    RETURN CASE
        WHEN v_fills.bad IS NOT NULL THEN
            format('fills.%s must have px and qty above 0 with at most 14 digits before and 12 after the point, and ts in UTC such as 2026-11-17T10:00:00Z, to the microsecond', v_fills.bad - 1)
        WHEN jsonb_typeof(p_result->'avg_price') <> 'null' AND consign.order_amount(p_result->'avg_price') IS NULL THEN
            'avg_price must be a number above 0 with at most 14 digits before and 12 after the point'
        WHEN abs(consign.order_amount(p_result->'avg_price') - round(v_fills.average, 8)) > 1e-8 THEN
            format('avg_price is %s, the average of the fills is %s', p_result->>'avg_price', trim_scale(round(v_fills.average, 8)))
        WHEN v_ordered IS NULL OR v_requested IS NULL THEN 'the stored order cannot be read'
        WHEN v_fills.qty > v_ordered THEN format('%s was executed, %s was ordered', trim_scale(v_fills.qty), v_ordered)
        WHEN v_fills.qty < v_ordered AND consign.order_body(p_payload)->>'time_in_force' = 'FOK' THEN
            format('%s of %s was executed of a fill-or-kill order', trim_scale(v_fills.qty), v_ordered)
        WHEN v_fills.last < v_requested - interval '60 seconds' THEN
            'completed_at is long before requested_at'
    END;
END $$;
REVOKE ALL ON FUNCTION consign.order_statement_fault(jsonb, jsonb) FROM PUBLIC;

-- What the attempt of a person's resolution of an order keeps, in the form the order sink has.
CREATE FUNCTION consign.resolved_order(p_message consign.message, p_outcome text, p_result jsonb) RETURNS jsonb
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_order CONSTANT jsonb := p_message.payload->'order';
    v_fault text;
    v_all   record;
BEGIN
    IF p_outcome <> 'delivered' THEN
        RETURN NULL;
    END IF;
    v_fault := consign.order_statement_fault(p_message.payload, p_result);
    IF v_fault IS NOT NULL THEN
        RAISE EXCEPTION 'result: %', v_fault USING ERRCODE = 'CN006', DETAIL = jsonb_build_object('id', p_message.id)::text;
    END IF;
    SELECT trim_scale(sum(f.qty)) AS qty, max(f.ts) AS last,
           trim_scale(coalesce(consign.order_amount(p_result->'avg_price'), round(sum(f.px * f.qty)::numeric(60, 24) / sum(f.qty), 8))) AS average,
           jsonb_agg(jsonb_build_object('px', trim_scale(f.px), 'qty', trim_scale(f.qty), 'ts', f.shown) ORDER BY f.ord) AS fills,
           string_agg(format('{"px":%s,"qty":%s,"ts":"%s"}', trim_scale(f.px), trim_scale(f.qty), f.shown), ',' ORDER BY f.ord) AS canonical
        INTO v_all FROM consign.order_fills(p_result->'fills') f;
    RETURN jsonb_build_object(
        'http_status', 200,
        -- The canonical text of the eight stable fields.
        'result_digest', 'sha256:' || encode(sha256(convert_to(format(
            '{"avg_price":%s,"executed_qty":%s,"fills":[%s],"instrument":%s,"order_id":%s,"reason_code":null,"side":%s,"status":"ok"}',
            v_all.average, v_all.qty, v_all.canonical, to_json(v_order->>'instrument'), to_json(normalize(v_order->>'order_id')),
            to_json(v_order->>'side')), 'UTF8')), 'hex'),
        'exec_result', (consign.order_result(v_order, p_message.payload->>'idempotency_key', NULL,
                'the outcome was in doubt; an operator found it in the broker''s books',
                greatest(v_all.last, consign.order_requested_at(v_order)))::jsonb
            || jsonb_build_object('fills', v_all.fills, 'executed_qty', v_all.qty, 'avg_price', v_all.average,
                   'broker', jsonb_build_object('name', 'unknown', 'order_ref', p_result->'order_ref')))::text);
END $$;
REVOKE ALL ON FUNCTION consign.resolved_order(consign.message, text, jsonb) FROM PUBLIC;
SELECT consign.set_hook('orders', 'resolve', 'consign.resolved_order');

-- What a purge did, or would do. restless: failed keys among the removed with many conflicts.
CREATE TYPE consign.purge_report AS (
    succeeded bigint, failed bigint, kept_alive bigint, given_up bigint, has_more boolean,
    restless_clients text[], restless_keys text[], restless_conflicts bigint[]);

-- Removes rows of the ledger and frees their keys.
CREATE FUNCTION consign.forget_orders(p_clients text[], p_keys text[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    DELETE FROM consign.idempo_ledger l USING unnest(p_clients, p_keys) AS o (client, key)
        WHERE l.client = o.client AND l.idempotency_key = o.key;
    -- Keys in one order everywhere, or this and a producer could wait for each other.
    PERFORM FROM consign.idempo_conflict c JOIN unnest(p_clients, p_keys) AS o (client, key)
            ON c.client = o.client AND c.idempotency_key = o.key
        ORDER BY c.client, c.idempotency_key FOR UPDATE OF c;
    DELETE FROM consign.idempo_conflict c USING unnest(p_clients, p_keys) AS o (client, key)
        WHERE c.client = o.client AND c.idempotency_key = o.key;
    -- The key of an order outlives its message, but not its row.
    DELETE FROM consign.message_key k USING unnest(p_clients, p_keys) AS o (client, key)
        WHERE k.queue = 'orders' AND k.key = o.client || '/' || o.key;
END $$;
REVOKE ALL ON FUNCTION consign.forget_orders(text[], text[]) FROM PUBLIC;

-- Removes rows of the ledger, and with each its message and everything recorded about that, under an audit entry.
CREATE FUNCTION consign.remove_orders(p_clients text[], p_keys text[], p_ids bigint[], p_actor text, p_reason text, p_now timestamptz)
    RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    PERFORM consign.forget_orders(p_clients, p_keys);
    PERFORM consign.purge_messages('orders', p_ids, p_actor, p_reason, p_now);
END $$;
REVOKE ALL ON FUNCTION consign.remove_orders(text[], text[], bigint[], text, text, timestamptz) FROM PUBLIC;

-- Locks up to p_limit rows past their time that have nothing on its way any more, oldest first. Where the queue's policy has a
-- time for finished messages, they leave by that, into the archive, and not by a purge.
--
-- Nothing here waits for a row: a requeue has its dead message in hand and wants the row of the ledger.
-- One that is being requeued or erased in this moment is left out.
CREATE FUNCTION consign.lock_purgeable(p_limit int, p_now timestamptz, OUT clients text[], OUT keys text[], OUT ids bigint[],
                                       OUT succeeded boolean[], OUT until timestamptz, OUT is_cut boolean)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_free   bigint[];
    v_dead   bigint[];
    v_purged text[];
BEGIN
    SELECT array_remove(ARRAY[CASE WHEN q.policy->>'keep_ms' IS NULL THEN 'delivered' END,
                              CASE WHEN q.policy->>'keep_dead_ms' IS NULL THEN 'dead' END], NULL)
        INTO v_purged FROM consign.queue q WHERE q.name = 'orders';
    SELECT array_agg(o.client), array_agg(o.idempotency_key), array_agg(o.outbox_id), array_agg(o.status = 'succeeded' OR o.is_delivered),
           max(o.expires_at), count(*) = p_limit
        INTO clients, keys, ids, succeeded, until, is_cut
        FROM (SELECT l.*, coalesce(consign.state_of(l.outbox_id) = 'delivered', false) AS is_delivered
                  FROM consign.idempo_ledger l
                  WHERE l.expires_at <= p_now
                      AND CASE WHEN l.outbox_id IS NULL THEN l.status <> 'accepted' OR l.give_up_at <= p_now
                               ELSE coalesce(consign.state_of(l.outbox_id) = ANY (v_purged), true) END
                  ORDER BY l.expires_at LIMIT p_limit FOR UPDATE SKIP LOCKED) o;
    v_free := ARRAY(SELECT m.id FROM consign.message m WHERE m.id = ANY (ids) AND m.id BETWEEN consign.least_id(ids) AND consign.greatest_id(ids)
                        FOR UPDATE SKIP LOCKED);
    v_dead := ARRAY(SELECT d.message_id FROM consign.dead d WHERE d.message_id = ANY (ids) FOR UPDATE SKIP LOCKED);
    SELECT array_agg(o.client ORDER BY o.client COLLATE "C", o.key COLLATE "C"), array_agg(o.key ORDER BY o.client COLLATE "C", o.key COLLATE "C"),
           array_agg(o.id ORDER BY o.client COLLATE "C", o.key COLLATE "C"),
           array_agg(o.succeeded ORDER BY o.client COLLATE "C", o.key COLLATE "C")
        INTO clients, keys, ids, succeeded
        FROM unnest(clients, keys, ids, succeeded) AS o (client, key, id, succeeded)
        WHERE (o.id = ANY (v_dead) OR coalesce(consign.state_of(o.id) = 'delivered', true))
            AND (o.id = ANY (v_free) OR NOT EXISTS (SELECT FROM consign.message m WHERE m.id = o.id));
END $$;
REVOKE ALL ON FUNCTION consign.lock_purgeable(int, timestamptz) FROM PUBLIC;

-- Removes up to p_limit rows past their time together with their finished messages, never a row whose
-- message is alive. With p_dry_run it returns what it would do.
CREATE FUNCTION consign.purge_orders(p_actor text, p_reason text, p_limit int DEFAULT 1000, p_conflicts_min bigint DEFAULT 3,
                                     p_dry_run boolean DEFAULT false) RETURNS consign.purge_report
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_now    timestamptz := consign.clock();
    v_report consign.purge_report;
    v_late   record;
    v_gone   record;
BEGIN
    PERFORM consign.require_read_committed();
    PERFORM consign.require_reason(p_actor, p_reason);
    IF (p_limit BETWEEN 1 AND 10000 AND p_conflicts_min >= 0 AND p_dry_run IS NOT NULL AND octet_length(p_reason) <= 4000) IS NOT TRUE THEN
        RAISE EXCEPTION 'purge: limit must be from 1 to 10000, conflicts_min not negative, the reason at most 4000 bytes'
            USING ERRCODE = 'CN006';
    END IF;
    SELECT array_agg(o.client) AS clients, array_agg(o.idempotency_key) AS keys, count(*) AS count INTO v_late
        FROM (SELECT l.client, l.idempotency_key FROM consign.idempo_ledger l WHERE l.give_up_at <= v_now
                  ORDER BY l.give_up_at LIMIT p_limit) o;
    v_report.given_up := CASE WHEN p_dry_run THEN v_late.count ELSE consign.give_up_orders(v_late.clients, v_late.keys, v_now) END;

    SELECT * INTO v_gone FROM consign.lock_purgeable(p_limit, v_now);
    v_report.has_more := v_gone.is_cut AND EXISTS (
        SELECT FROM consign.idempo_ledger l
            WHERE l.expires_at BETWEEN v_gone.until AND v_now
                AND NOT EXISTS (SELECT FROM unnest(v_gone.clients, v_gone.keys) AS o (client, key)
                                    WHERE o.client = l.client AND o.key = l.idempotency_key));
    -- Only those of this call, or the first call after a long time would read everything again and again.
    SELECT count(*) INTO v_report.kept_alive FROM consign.idempo_ledger l
        WHERE l.expires_at <= CASE WHEN v_report.has_more THEN v_gone.until ELSE v_now END AND l.outbox_id IS NOT NULL
            AND consign.state_of(l.outbox_id) NOT IN ('delivered', 'dead');
    SELECT count(*) FILTER (WHERE o.succeeded), count(*) FILTER (WHERE NOT o.succeeded),
           coalesce(array_agg(o.client) FILTER (WHERE o.is_restless), '{}'), coalesce(array_agg(o.key) FILTER (WHERE o.is_restless), '{}'),
           coalesce(array_agg(o.conflicts) FILTER (WHERE o.is_restless), '{}')
        INTO v_report.succeeded, v_report.failed, v_report.restless_clients, v_report.restless_keys, v_report.restless_conflicts
        FROM (SELECT g.client, g.key, g.succeeded, c.conflicts,
                     coalesce(NOT g.succeeded AND c.conflicts >= p_conflicts_min, false) AS is_restless
                  FROM unnest(v_gone.clients, v_gone.keys, v_gone.succeeded) AS g (client, key, succeeded)
                  LEFT JOIN consign.idempo_conflict c ON c.client = g.client AND c.idempotency_key = g.key) o;
    IF v_report.succeeded + v_report.failed > 0 AND NOT p_dry_run THEN
        PERFORM consign.remove_orders(v_gone.clients, v_gone.keys, v_gone.ids, p_actor,
            format('%s (%s succeeded and %s failed orders)', p_reason, v_report.succeeded, v_report.failed), v_now);
    END IF;
    IF NOT p_dry_run THEN
        DELETE FROM consign.order_quota q WHERE q.day < (v_now AT TIME ZONE 'UTC')::date - 1;
    END IF;
    RETURN v_report;
END $$;
REVOKE ALL ON FUNCTION consign.purge_orders(text, text, int, bigint, boolean) FROM PUBLIC;

-- How many rows the ledger has by status: counted while it is small, estimated from the planner's
-- statistics when counting would take long.
CREATE FUNCTION consign.count_orders() RETURNS TABLE (status text, count bigint)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
#variable_conflict use_column
BEGIN
    IF pg_relation_size('consign.idempo_ledger') < 64 * 1024 * 1024 THEN
        RETURN QUERY SELECT l.status, count(*) FROM consign.idempo_ledger l GROUP BY l.status;
    ELSE
        RETURN QUERY
            SELECT u.value, (u.share * c.reltuples)::bigint
                FROM pg_class c, pg_stats s, unnest(s.most_common_vals::text::text[], s.most_common_freqs) AS u (value, share)
                WHERE c.oid = 'consign.idempo_ledger'::regclass AND s.schemaname = 'consign' AND s.tablename = 'idempo_ledger'
                    AND s.attname = 'status';
    END IF;
END $$;
REVOKE ALL ON FUNCTION consign.count_orders() FROM PUBLIC;
