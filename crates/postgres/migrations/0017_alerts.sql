-- Alerts: messages about a queue in the queue that its policy names. Events are recorded where they happen
-- (consign.record_deaths, consign.end_lease), counted and enqueued by steps. The rules are those of AlertBoard in the kernel.

-- Records the deaths of messages that died in this transaction, by queue and code, where the queue has alerts. Callers look
-- at the policy first: a queue without alerts pays nothing.
CREATE FUNCTION consign.record_deaths(p_ids bigint[], p_now timestamptz) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    INSERT INTO consign.alert_event (queue, reason, code, count, message_id, at)
        SELECT d.queue, 'died', d.code, count(*), max(d.message_id), p_now
            FROM consign.dead d JOIN consign.queue q ON q.name = d.queue
            WHERE d.message_id = ANY (p_ids) AND q.policy->>'alert_queue' IS NOT NULL
            GROUP BY d.queue, d.code ORDER BY d.queue COLLATE "C", d.code COLLATE "C";
END $$;
REVOKE ALL ON FUNCTION consign.record_deaths(bigint[], timestamptz) FROM PUBLIC;

-- Records that the circuit breaker of a queue's sink opened, and the code of the failure that opened it, where the queue has
-- alerts. Workers in other languages may call it too.
CREATE FUNCTION consign.record_breaker_open(p_queue text, p_code text DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_queue consign.queue;
BEGIN
    IF NOT consign.may_work(p_queue) THEN
        PERFORM consign.refuse_queue(p_queue);
    END IF;
    v_queue := consign.known_queue(p_queue);
    IF v_queue.policy->>'alert_queue' IS NOT NULL THEN
        INSERT INTO consign.alert_event (queue, reason, code, count, at)
            VALUES (p_queue, 'breaker_open', left(coalesce(p_code, ''), 128), 1, consign.clock());
    END IF;
END $$;
REVOKE ALL ON FUNCTION consign.record_breaker_open(text, text) FROM PUBLIC;

-- Whether the last alert is an interval ago. After a clock was set back by more than that, none is waited for.
CREATE FUNCTION consign.may_alert(p_alerted_at timestamptz, p_now timestamptz, p_interval interval) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN coalesce(p_now - p_alerted_at >= p_interval OR p_now - p_alerted_at < -p_interval, true);
REVOKE ALL ON FUNCTION consign.may_alert(timestamptz, timestamptz, interval) FROM PUBLIC;

-- An alert as the payload of its message. The sentence is that of Alert::with_text in the kernel.
CREATE FUNCTION consign.alert_payload(p_alert consign.alert) RETURNS jsonb
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on
    AS $$
DECLARE
    v_time CONSTANT text := 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"';
    v_code CONSTANT text := coalesce(nullif(p_alert.code, ''), 'no code');
    -- What could end a line, a command or a word in a chat that shows the text: codes come from receivers and workers.
    v_shown CONSTANT text := regexp_replace(v_code, E'[\\u0001-\\u001f\\u007f-\\u009f`<>]', '?', 'g');
    v_s    CONSTANT text := CASE WHEN p_alert.pending = 1 THEN '' ELSE 's' END;
BEGIN
    RETURN jsonb_build_object(
        'reason', p_alert.reason, 'queue', p_alert.queue, 'code', nullif(p_alert.code, ''), 'count', p_alert.pending,
        'first_at', to_char(p_alert.first_at AT TIME ZONE 'UTC', v_time), 'last_at', to_char(p_alert.last_at AT TIME ZONE 'UTC', v_time),
        'message_id', p_alert.message_id,
        'oldest_at', CASE WHEN p_alert.reason = 'queue_old' THEN to_char(p_alert.first_at AT TIME ZONE 'UTC', v_time) END,
        'text', CASE p_alert.reason
            WHEN 'died' THEN format('%s message%s of queue %s died with %s: `consign ls --queue %s --state dead%s`', p_alert.pending,
                v_s, p_alert.queue, v_shown, p_alert.queue,
                CASE WHEN v_code <> 'other' AND v_code ~ '^[A-Za-z0-9_.:][A-Za-z0-9_.:-]*$' THEN ' --code ' || v_code ELSE '' END)
            WHEN 'lease_lost' THEN format('%s lease%s of queue %s expired before all messages were settled: `consign leases`, '
                'and `consign queues show %s` for the lease time', p_alert.pending, v_s, p_alert.queue, p_alert.queue)
            WHEN 'queue_old' THEN format('queue %s is older than its limit, %s message%s due: `consign ls --queue %s --state ready`',
                p_alert.queue, p_alert.pending, v_s, p_alert.queue)
            WHEN 'breaker_open' THEN format('the circuit breaker of queue %s opened %s time%s with %s: its sink fails, and nothing is '
                'sent to it for a while: `consign queues show %s`', p_alert.queue, p_alert.pending, v_s, v_shown, p_alert.queue) END);
END $$;
REVOKE ALL ON FUNCTION consign.alert_payload(consign.alert) FROM PUBLIC;

-- Counts up to p_limit records of events; returns how many. Rows of `alert` in one order everywhere, or two steps could wait
-- for each other; records that another step takes are skipped.
CREATE FUNCTION consign.count_events(p_limit int) RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_events bigint := 0;
    v_event  record;
BEGIN
    FOR v_event IN
        WITH taken AS (
            DELETE FROM consign.alert_event e
                WHERE e.id = ANY (ARRAY(SELECT o.id FROM consign.alert_event o ORDER BY o.id LIMIT p_limit FOR UPDATE SKIP LOCKED))
                RETURNING e.*),
        -- Codes beyond twenty of a queue and reason share one row. Decided before the rows are ordered.
        known AS (
            SELECT n.queue, n.reason, n.code, n.code = '' OR n.is_counted OR n.rows + n.nth <= 20 AS has_row
                FROM (SELECT f.queue, f.reason, f.code, a.code IS NOT NULL AS is_counted,
                             (SELECT count(*) FROM consign.alert o WHERE o.queue = f.queue AND o.reason = f.reason) AS rows,
                             row_number() OVER (PARTITION BY f.queue, f.reason, a.code IS NULL ORDER BY f.id) AS nth
                          FROM (SELECT t.queue, t.reason, t.code, min(t.id) AS id FROM taken t GROUP BY t.queue, t.reason, t.code) f
                          LEFT JOIN consign.alert a ON (a.queue, a.reason, a.code) = (f.queue, f.reason, f.code)) n)
        SELECT t.queue, t.reason, CASE WHEN k.has_row THEN t.code ELSE 'other' END AS code, count(*) AS records, sum(t.count) AS count, (array_agg(t.at ORDER BY t.id))[1] AS first_at,
               (array_agg(t.at ORDER BY t.id DESC))[1] AS last_at, (array_agg(t.message_id ORDER BY t.id DESC))[1] AS message_id,
               bool_or(q.policy->>'alert_queue' IS NOT NULL) AS is_wanted,
               interval '1 millisecond' * max((q.policy->>'alert_interval_ms')::bigint) AS interval
            FROM taken t JOIN known k ON (k.queue, k.reason, k.code) = (t.queue, t.reason, t.code)
            LEFT JOIN consign.queue q ON q.name = t.queue
            -- Lost leases count only together, within the interval: one after the other.
            GROUP BY t.queue, t.reason, 3, CASE WHEN t.reason = 'lease_lost' THEN t.id END
            ORDER BY t.queue COLLATE "C", t.reason COLLATE "C", CASE WHEN k.has_row THEN t.code ELSE 'other' END COLLATE "C", min(t.id)
    LOOP
        v_events := v_events + v_event.records;
        CONTINUE WHEN v_event.is_wanted IS NOT TRUE;
        INSERT INTO consign.alert AS a (queue, reason, code, pending, first_at, last_at, message_id)
            VALUES (v_event.queue, v_event.reason, v_event.code, v_event.count, v_event.first_at, v_event.last_at, v_event.message_id)
            ON CONFLICT (queue, reason, code) DO UPDATE SET
                -- While two leases are pending at most, the times of the first and the last are those of all.
                pending = excluded.pending + CASE
                    WHEN a.reason <> 'lease_lost' OR a.pending >= 3 OR excluded.last_at - a.first_at < v_event.interval THEN a.pending
                    WHEN a.pending = 2 AND excluded.last_at - a.last_at < v_event.interval THEN 1
                    ELSE 0 END,
                first_at = CASE
                    WHEN a.pending = 0 THEN excluded.first_at
                    WHEN a.reason <> 'lease_lost' OR a.pending >= 3 OR excluded.last_at - a.first_at < v_event.interval THEN a.first_at
                    WHEN a.pending = 2 AND excluded.last_at - a.last_at < v_event.interval THEN a.last_at
                    ELSE excluded.first_at END,
                last_at = excluded.last_at, message_id = excluded.message_id;
    END LOOP;
    RETURN v_events;
END $$;
REVOKE ALL ON FUNCTION consign.count_events(int) FROM PUBLIC;

-- Counts the due messages of queues whose oldest one waits for longer than the policy's alert_age_ms, where an alert may be
-- raised. A look at the first entry of an index for each queue with a limit.
CREATE FUNCTION consign.look_for_old_queues() RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_now    timestamptz := consign.clock();
    v_queue  record;
    v_oldest record;
BEGIN
    FOR v_queue IN
        SELECT q.name, interval '1 millisecond' * (q.policy->>'alert_age_ms')::bigint AS age,
               interval '1 millisecond' * (q.policy->>'alert_interval_ms')::bigint AS interval
            FROM consign.queue q LEFT JOIN consign.alert a ON a.queue = q.name AND a.reason = 'queue_old'
            WHERE q.policy->>'alert_queue' IS NOT NULL AND q.policy->>'alert_age_ms' IS NOT NULL
                AND consign.may_alert(a.alerted_at, v_now, interval '1 millisecond' * (q.policy->>'alert_interval_ms')::bigint)
            ORDER BY q.name COLLATE "C"
    LOOP
        SELECT r.due_at, r.ids[1] AS id INTO v_oldest FROM consign.ready r
            WHERE r.queue = v_queue.name AND r.due_at <= v_now ORDER BY r.due_at, r.batch LIMIT 1;
        IF v_now - v_oldest.due_at >= v_queue.age THEN
            INSERT INTO consign.alert AS a (queue, reason, code, pending, first_at, last_at, message_id)
                SELECT v_queue.name, 'queue_old', '', least(sum(cardinality(r.ids)), 10000), v_oldest.due_at, v_now, v_oldest.id
                    FROM (SELECT o.ids FROM consign.ready o WHERE o.queue = v_queue.name AND o.due_at <= v_now
                              ORDER BY o.due_at, o.batch LIMIT 10000) r
                    HAVING count(*) > 0
                ON CONFLICT (queue, reason, code) DO UPDATE SET pending = excluded.pending, first_at = excluded.first_at,
                    last_at = excluded.last_at, message_id = excluded.message_id
                    -- Another step may have raised it meanwhile.
                    WHERE consign.may_alert(a.alerted_at, v_now, v_queue.interval);
        ELSE
            UPDATE consign.alert a SET pending = 0 WHERE a.queue = v_queue.name AND a.reason = 'queue_old' AND a.pending > 0;
        END IF;
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION consign.look_for_old_queues() FROM PUBLIC;

-- Counts up to p_limit records of events, looks for old queues, and enqueues the alerts that are due: at most one per queue,
-- reason, code and the queue's alert_interval_ms. raised: the payloads of the alerts that were enqueued; refused: those that
-- their queue did not take, each {alert, alert_queue, failure}, which are kept for the next step. Of queues that the caller
-- may not work, a worker gets neither.
--
-- Any number of sessions may step: an alert that another one raises is skipped.
CREATE FUNCTION consign.step_alerts(p_limit int DEFAULT 1000, OUT events bigint, OUT raised jsonb, OUT refused jsonb)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_now     timestamptz;
    v_due     record;
    v_alert   consign.alert;
    v_payload jsonb;
    v_failure text;
    v_sees_all boolean := consign.acts_as('consign_operator');
BEGIN
    PERFORM consign.require_read_committed();
    IF p_limit IS NULL OR p_limit NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'limit: must be from 1 to 1000' USING ERRCODE = 'CN006';
    END IF;
    raised := '[]';
    refused := '[]';
    events := consign.count_events(p_limit);
    PERFORM consign.look_for_old_queues();
    v_now := consign.clock();
    -- What nothing depends on any more.
    DELETE FROM consign.alert a WHERE a.ctid = ANY (ARRAY(
        SELECT o.ctid FROM consign.alert o LEFT JOIN consign.queue q ON q.name = o.queue
            WHERE q.policy->>'alert_queue' IS NULL OR o.reason = 'queue_old' AND q.policy->>'alert_age_ms' IS NULL
                OR consign.may_alert(o.alerted_at, v_now, interval '1 millisecond' * (q.policy->>'alert_interval_ms')::bigint)
                    AND (o.pending = 0 OR o.reason = 'lease_lost' AND o.pending < 3
                             AND v_now - o.last_at >= interval '1 millisecond' * (q.policy->>'alert_interval_ms')::bigint)
            FOR UPDATE OF o SKIP LOCKED));
    FOR v_due IN
        SELECT a AS alert, q.policy->>'alert_queue' AS alert_queue FROM consign.alert a JOIN consign.queue q ON q.name = a.queue
            WHERE a.pending >= CASE a.reason WHEN 'lease_lost' THEN 3 ELSE 1 END AND q.policy->>'alert_queue' IS NOT NULL
                AND consign.may_alert(a.alerted_at, v_now, interval '1 millisecond' * (q.policy->>'alert_interval_ms')::bigint)
            ORDER BY a.queue COLLATE "C", a.reason COLLATE "C", a.code COLLATE "C" FOR UPDATE OF a SKIP LOCKED
    LOOP
        v_alert := v_due.alert;
        v_payload := consign.alert_payload(v_alert);
        v_failure := NULL;
        -- Whatever a queue has against an alert, the others are enqueued.
        BEGIN
            PERFORM e.id FROM consign.enqueue_numbered(
                v_due.alert_queue, NULL, ARRAY[v_payload], NULL, NULL,
                ARRAY[jsonb_build_object('consign-alert', v_alert.reason)], NULL, NULL, NULL, true) e;
        EXCEPTION WHEN OTHERS THEN
            v_failure := SQLERRM;
        END;
        IF NOT (v_sees_all OR consign.may_work(v_alert.queue)) THEN
            NULL;
        ELSIF v_failure IS NULL THEN
            raised := raised || v_payload;
        ELSE
            refused := refused || jsonb_build_object('alert', v_payload, 'alert_queue', v_due.alert_queue, 'failure', v_failure);
        END IF;
        UPDATE consign.alert a SET
                pending = CASE WHEN v_failure IS NULL THEN 0 ELSE a.pending END,
                alerted_at = CASE WHEN v_failure IS NULL THEN v_now ELSE a.alerted_at END, failure = v_failure
            WHERE a.queue = v_alert.queue AND a.reason = v_alert.reason AND a.code = v_alert.code;
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION consign.step_alerts(int) FROM PUBLIC;
