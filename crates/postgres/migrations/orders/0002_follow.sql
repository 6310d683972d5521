-- The ledger follows the message: whatever ends a message of an order or brings one back (a settle, an
-- expiry, a requeue, a redrive, a person's word, SQL by hand) changes its row in the same transaction.

-- What an attempt's result says about how an order ended; NULLs if it says nothing that can be read.
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

-- Ends the row of a message, if it is accepted and about the same request. p_in_doubt: failed, but
-- perhaps executed. Then the row says so, whatever went wrong last.
--
-- p_is_resolved: a person found out that it was not executed.
CREATE FUNCTION consign.end_order(p_id bigint, p_status text, p_result jsonb, p_in_doubt boolean, p_is_resolved boolean,
                                  p_now timestamptz) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_payload jsonb;
    v_ended   record;
    v_reason  text := CASE WHEN p_in_doubt THEN 'BROKER_TIMEOUT' WHEN p_is_resolved THEN 'BROKER_REJECTED'
                           WHEN p_status = 'failed' THEN 'INTERNAL_ERROR' END;
    v_message text := CASE WHEN p_in_doubt THEN 'the order may have been executed: nobody knows what became of its last send'
                           WHEN p_is_resolved THEN 'the order was not executed: an operator found out after its outcome had been in doubt'
                           ELSE 'the order ended without a result from its broker' END;
BEGIN
    -- Looked at before anything else: a message delivered with a code need not be an order.
    IF NOT EXISTS (SELECT FROM consign.idempo_ledger l WHERE l.outbox_id = p_id) THEN
        RETURN;
    END IF;
    SELECT m.payload INTO v_payload FROM consign.message m WHERE m.id = p_id;
    SELECT * INTO v_ended FROM consign.order_ended(p_result) e WHERE NOT p_in_doubt OR e.http_status = 504;
    UPDATE consign.idempo_ledger l SET
            status = p_status,
            http_status = coalesce(v_ended.http_status, CASE v_reason WHEN 'BROKER_TIMEOUT' THEN 504 WHEN 'BROKER_REJECTED' THEN 400
                                                                    WHEN 'INTERNAL_ERROR' THEN 500 ELSE 200 END),
            result_digest = v_ended.result_digest,
            response_payload_json = coalesce(v_ended.exec_result, consign.order_result(
                v_payload->'order', l.idempotency_key, v_reason, v_message, p_now))
        WHERE l.outbox_id = p_id AND l.status = 'accepted' AND l.request_digest = v_payload->>'request_digest';
END $$;
REVOKE ALL ON FUNCTION consign.end_order(bigint, text, jsonb, boolean, boolean, timestamptz) FROM PUBLIC;

CREATE FUNCTION consign.follow_delivered() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    PERFORM consign.end_order(NEW.message_id, 'succeeded', NEW.result, false, false, NEW.finished_at);
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION consign.follow_delivered() FROM PUBLIC;

CREATE FUNCTION consign.follow_dead() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_last     consign.attempt;
    v_resolved boolean;
    v_is_final boolean;
    v_in_doubt boolean;
BEGIN
    SELECT a.* INTO v_last FROM consign.attempt a WHERE a.message_id = NEW.message_id AND a.attempt_no = NEW.attempt_no;
    -- The sink says `dead` with an end of its own only where it is certain; a person who says it knows.
    v_resolved := NEW.code = 'resolved' AND coalesce(v_last.outcome = 'dead', false);
    v_is_final := v_resolved
        OR coalesce(v_last.outcome = 'dead' AND (consign.order_ended(v_last.result)).http_status IS NOT NULL, false);
    -- As consign.is_in_doubt sees it, but for a death by somebody who does not say what became of the order.
    v_in_doubt := NOT v_is_final AND coalesce(
        (SELECT a.outcome = 'uncertain' FROM consign.attempt a
             WHERE a.message_id = NEW.message_id AND a.outcome <> 'expired'
                 AND NOT (a.attempt_no = NEW.attempt_no AND a.outcome = 'dead')
             ORDER BY a.attempt_no DESC LIMIT 1), false);
    PERFORM consign.end_order(NEW.message_id, 'failed', v_last.result, v_in_doubt, v_resolved, NEW.at);
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION consign.follow_dead() FROM PUBLIC;

-- A fresh start has the times to live that the first one had.
CREATE FUNCTION consign.follow_requeued() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_now timestamptz := consign.clock();
BEGIN
    UPDATE consign.idempo_ledger l SET
            status = 'accepted', http_status = 201, result_digest = NULL, response_payload_json = NULL,
            expires_at = v_now + (l.expires_at - coalesce(l.requeued_at, l.first_seen_at)),
            order_expires_at = v_now + (l.order_expires_at - coalesce(l.requeued_at, l.first_seen_at)),
            requeued_at = v_now
        WHERE l.outbox_id = OLD.message_id AND l.status = 'failed'
            AND l.request_digest = (SELECT m.payload->>'request_digest' FROM consign.message m WHERE m.id = OLD.message_id);
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION consign.follow_requeued() FROM PUBLIC;

-- The order sink names a code when it delivers. Others seldom do, and pay for nothing but the condition.
CREATE TRIGGER follow_delivered AFTER INSERT ON consign.attempt
    FOR EACH ROW WHEN (NEW.outcome = 'delivered' AND NEW.code IS NOT NULL) EXECUTE FUNCTION consign.follow_delivered();
-- A conflict says that the row is about another request: it is not this message's to end.
CREATE TRIGGER follow_dead AFTER INSERT ON consign.dead
    FOR EACH ROW WHEN (NEW.queue = 'orders' AND NEW.code <> 'IDEMPOTENCY_CONFLICT') EXECUTE FUNCTION consign.follow_dead();
CREATE TRIGGER follow_requeued AFTER DELETE ON consign.dead
    FOR EACH ROW WHEN (OLD.queue = 'orders') EXECUTE FUNCTION consign.follow_requeued();

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

-- What is wrong with what a person says about the execution of an order; NULL: nothing. The rules of a
-- broker's answer; apps/orders has the same ones for the store in SQLite.
CREATE FUNCTION consign.order_statement_fault(p_payload jsonb, p_result jsonb) RETURNS text
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on
    AS $$
DECLARE
    v_ordered   CONSTANT numeric := consign.order_amount(p_payload->'order'->'qty');
    v_requested CONSTANT timestamptz := consign.order_requested_at(p_payload->'order');
    v_fills     record;
BEGIN
    IF p_result IS NULL THEN
        RETURN 'an order is executed only with its result: order_ref and fills (px, qty, ts), as in the broker''s books; without them say dead (not executed) or unknown';
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

-- Whether this very transaction has recorded that it purges. A row that can be seen although the
-- transaction that wrote it is still under way was written by oneself.
CREATE FUNCTION consign.is_purging() RETURNS boolean
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on
    AS $$
DECLARE
    v_audit text := current_setting('consign.purge', true);
    v_own   bigint;
    v_epoch CONSTANT bigint := 4294967296;
    v_ahead bigint;
BEGIN
    IF v_audit IS NULL OR v_audit !~ '^\d{1,18}$' THEN
        RETURN false;
    END IF;
    v_own := pg_current_xact_id()::text::bigint;
    SELECT a.xmin::text::bigint - v_own % v_epoch INTO v_ahead FROM consign.audit a WHERE a.id = v_audit::bigint AND a.action = 'purge';
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    -- Rows keep the lower half of a transaction's number: of all that fit, the one nearest to this one's.
    -- It need not be this one's: a savepoint has a number of its own.
    v_ahead := (v_ahead + v_epoch * 3 / 2) % v_epoch - v_epoch / 2;
    RETURN v_own + v_ahead > 0 AND coalesce(pg_xact_status((v_own + v_ahead)::text::xid8) = 'in progress', false);
END $$;
REVOKE ALL ON FUNCTION consign.is_purging() FROM PUBLIC;

-- Append-only but for what a purge takes away as a whole. Audit entries stay whoever asks.
CREATE OR REPLACE FUNCTION consign.refuse_change() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF TG_OP = 'DELETE' AND TG_TABLE_NAME IN ('message', 'attempt', 'late') AND consign.is_purging() THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION '% on consign.% refused: its rows are append-only', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'CN009', HINT = 'Write a new row instead; nothing recorded is ever changed.';
END $$;

-- What a purge did, or would do. restless: failed keys among the removed with many conflicts.
CREATE TYPE consign.purge_report AS (
    succeeded bigint, failed bigint, kept_alive bigint, given_up bigint, has_more boolean,
    restless_clients text[], restless_keys text[], restless_conflicts bigint[]);

-- Removes rows of the ledger, and with each its message and everything recorded about that.
--
-- Allowed by the append-only triggers because this transaction leaves an audit entry behind.
CREATE FUNCTION consign.remove_orders(p_clients text[], p_keys text[], p_ids bigint[], p_actor text, p_reason text, p_now timestamptz)
    RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_audit bigint;
BEGIN
    INSERT INTO consign.audit (at, actor, action, queue, reason) VALUES (p_now, p_actor, 'purge', 'orders', p_reason)
        RETURNING id INTO v_audit;
    PERFORM set_config('consign.purge', v_audit::text, true);
    -- The row first: the ledger follows the dead, and what is gone cannot come back.
    DELETE FROM consign.idempo_ledger l USING unnest(p_clients, p_keys) AS o (client, key)
        WHERE l.client = o.client AND l.idempotency_key = o.key;
    -- Keys in one order everywhere, or this and a producer could wait for each other.
    PERFORM FROM consign.idempo_conflict c JOIN unnest(p_clients, p_keys) AS o (client, key)
            ON c.client = o.client AND c.idempotency_key = o.key
        ORDER BY c.client, c.idempotency_key FOR UPDATE OF c;
    DELETE FROM consign.idempo_conflict c USING unnest(p_clients, p_keys) AS o (client, key)
        WHERE c.client = o.client AND c.idempotency_key = o.key;
    DELETE FROM consign.dead d WHERE d.message_id = ANY (p_ids);
    DELETE FROM consign.late l WHERE l.message_id = ANY (p_ids);
    DELETE FROM consign.attempt a WHERE a.message_id = ANY (p_ids);
    DELETE FROM consign.message m WHERE m.id = ANY (p_ids);
    PERFORM set_config('consign.purge', '', true);
END $$;
REVOKE ALL ON FUNCTION consign.remove_orders(text[], text[], bigint[], text, text, timestamptz) FROM PUBLIC;

-- Locks up to p_limit rows past their time that have nothing on its way any more, oldest first.
--
-- Nothing here waits for a row: a requeue has its dead message in hand and wants the row of the ledger.
-- One that is being requeued in this moment is left out.
CREATE FUNCTION consign.lock_purgeable(p_limit int, p_now timestamptz, OUT clients text[], OUT keys text[], OUT ids bigint[],
                                       OUT succeeded boolean[], OUT until timestamptz, OUT is_cut boolean)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_dead bigint[];
BEGIN
    SELECT array_agg(o.client), array_agg(o.idempotency_key), array_agg(o.outbox_id), array_agg(o.status = 'succeeded' OR o.is_delivered),
           max(o.expires_at), count(*) = p_limit
        INTO clients, keys, ids, succeeded, until, is_cut
        FROM (SELECT l.*, coalesce(consign.state_of(l.outbox_id) = 'delivered', false) AS is_delivered
                  FROM consign.idempo_ledger l
                  WHERE l.expires_at <= p_now
                      AND CASE WHEN l.outbox_id IS NULL THEN l.status <> 'accepted' OR l.give_up_at <= p_now
                               ELSE coalesce(consign.state_of(l.outbox_id) IN ('delivered', 'dead'), true) END
                  ORDER BY l.expires_at LIMIT p_limit FOR UPDATE SKIP LOCKED) o;
    v_dead := ARRAY(SELECT d.message_id FROM consign.dead d WHERE d.message_id = ANY (ids) FOR UPDATE SKIP LOCKED);
    SELECT array_agg(o.client ORDER BY o.client COLLATE "C", o.key COLLATE "C"), array_agg(o.key ORDER BY o.client COLLATE "C", o.key COLLATE "C"),
           array_agg(o.id ORDER BY o.client COLLATE "C", o.key COLLATE "C"),
           array_agg(o.succeeded ORDER BY o.client COLLATE "C", o.key COLLATE "C")
        INTO clients, keys, ids, succeeded
        FROM unnest(clients, keys, ids, succeeded) AS o (client, key, id, succeeded)
        WHERE o.id IS NULL OR o.id = ANY (v_dead) OR coalesce(consign.state_of(o.id) = 'delivered', true);
END $$;
REVOKE ALL ON FUNCTION consign.lock_purgeable(int, timestamptz) FROM PUBLIC;

-- Removes up to p_limit rows past their time together with their finished messages, never a row whose
-- message is alive. With p_dry_run it says what it would do.
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
    -- Those that this call came by, or the first call after a long time would look at everything again and again.
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
