-- Queues: their policies, their hooks, and which roles may work them. The stored policy is always complete, so that no
-- other function needs to know a default.
--
-- Functions either have a parsed body (RETURN ...) or pin their search_path. pg_temp is named last because, left out, it
-- would be searched first: a caller could shadow a type such as timestamptz with a domain of its own and run code as the
-- owner of these functions.

-- The caller's role: the one it has SET, or its login. In a SECURITY DEFINER function `current_user` is the owner.
CREATE FUNCTION consign.acting_role() RETURNS name
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role')::name END;
REVOKE ALL ON FUNCTION consign.acting_role() FROM PUBLIC;

-- Whether the caller has the rights of a role, or those of the owner. Only for functions that run as the owner.
CREATE FUNCTION consign.acts_as(p_role name) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN pg_has_role(consign.acting_role(), current_user, 'USAGE')
        OR EXISTS (SELECT FROM pg_roles r WHERE r.rolname = p_role AND pg_has_role(consign.acting_role(), r.oid, 'USAGE'));
REVOKE ALL ON FUNCTION consign.acts_as(name) FROM PUBLIC;

-- Whether a text can name an owner or a program: not blank, not too long, no control characters.
CREATE FUNCTION consign.is_name(p_text text, p_bytes_max int) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN coalesce(btrim(p_text) <> '' AND octet_length(p_text) <= p_bytes_max
        AND p_text !~ E'[\\u0001-\\u001f\\u007f-\\u009f]', false);
REVOKE ALL ON FUNCTION consign.is_name(text, int) FROM PUBLIC;

CREATE FUNCTION consign.require_reason(p_actor text, p_reason text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on
    AS $$
BEGIN
    IF p_actor !~ '\S' OR p_reason !~ '\S' OR p_actor IS NULL OR p_reason IS NULL
        OR octet_length(p_actor) > 256 OR octet_length(p_reason) > 4096
    THEN
        RAISE EXCEPTION 'actor and reason are required, of at most 256 and 4096 bytes'
            USING ERRCODE = 'CN006', HINT = 'Operator actions are recorded with who did them and why.';
    END IF;
END $$;
REVOKE ALL ON FUNCTION consign.require_reason(text, text) FROM PUBLIC;

-- Rejects a transaction that cannot see what was committed since it began: it would decide about group heads and queues
-- from an old snapshot.
CREATE FUNCTION consign.require_read_committed() RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'transaction isolation: must be read committed here, not %', current_setting('transaction_isolation')
            USING ERRCODE = 'CN006', HINT = 'Enqueueing and settling work at any isolation level.';
    END IF;
END $$;
REVOKE ALL ON FUNCTION consign.require_read_committed() FROM PUBLIC;

-- Rejects intervals with years or months: PostgreSQL compares a month as 30 days and adds it by the calendar, so
-- "100000 years -36000000 days" is nothing when compared with a bound and centuries when added.
CREATE FUNCTION consign.exact(p_time interval) RETURNS interval
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF extract(year FROM p_time) <> 0 OR extract(month FROM p_time) <> 0 THEN
        RAISE EXCEPTION 'times: % has years or months, whose length differs', p_time
            USING ERRCODE = 'CN006', HINT = 'Give days, hours, minutes and seconds.';
    END IF;
    RETURN p_time;
END $$;
REVOKE ALL ON FUNCTION consign.exact(interval) FROM PUBLIC;

CREATE FUNCTION consign.default_policy() RETURNS jsonb
    LANGUAGE sql IMMUTABLE
    RETURN '{
        "lease_ttl_ms": 15000,
        "lease_ttl_max_ms": 3600000,
        "attempts_max": 10,
        "retry": {"kind": "exponential", "base_ms": 1000, "factor": 2.0, "max_ms": 3600000, "jitter": 0.2},
        "on_uncertain": "resend",
        "ordered": false,
        "on_dead": "block",
        "notify": true,
        "payload_max_bytes": 1048576,
        "claim_max_bytes": 16777216,
        "concurrency": 16,
        "rate_per_second": null,
        "total_concurrency": null,
        "total_rate_per_second": null,
        "timeout_ms": 10000,
        "record_begin": false,
        "presume_begun": false,
        "hold_codes": [],
        "keep_ms": null,
        "keep_dead_ms": null,
        "keep_keys_ms": null,
        "archive": true,
        "alert_queue": null,
        "alert_interval_ms": 300000,
        "alert_age_ms": null
    }'::jsonb;
REVOKE ALL ON FUNCTION consign.default_policy() FROM PUBLIC;

-- Whether a field is a number within bounds; false if it is absent or of another type.
CREATE FUNCTION consign.is_between(p_value jsonb, p_min float8, p_max float8) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    RETURN CASE WHEN jsonb_typeof(p_value) = 'number' THEN p_value::numeric BETWEEN p_min::numeric AND p_max::numeric ELSE false END;
REVOKE ALL ON FUNCTION consign.is_between(jsonb, float8, float8) FROM PUBLIC;

-- Rejects a retry schedule from which a later settle could not compute a delay.
CREATE FUNCTION consign.check_retry(p_retry jsonb) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_year_ms CONSTANT float8 := 366 * 24 * 3600000.0;
    v_fields  text[] := CASE p_retry->>'kind'
        WHEN 'fixed' THEN ARRAY['kind', 'delay_ms']
        WHEN 'table' THEN ARRAY['kind', 'delays_ms']
        WHEN 'exponential' THEN ARRAY['kind', 'base_ms', 'factor', 'max_ms', 'jitter'] END;
    v_wrong   text;
BEGIN
    v_wrong := CASE
        WHEN jsonb_typeof(p_retry) IS DISTINCT FROM 'object' OR v_fields IS NULL THEN 'kind must be fixed, table or exponential'
        WHEN EXISTS (SELECT FROM jsonb_object_keys(p_retry) k WHERE NOT k = ANY (v_fields))
            THEN 'fields of this kind are ' || array_to_string(v_fields, ', ') END;
    IF v_wrong IS NULL THEN
        v_wrong := CASE p_retry->>'kind'
            WHEN 'fixed' THEN CASE WHEN NOT consign.is_between(p_retry->'delay_ms', 0, v_year_ms)
                THEN 'delay_ms must be from 0 to a year' END
            WHEN 'table' THEN CASE WHEN jsonb_typeof(p_retry->'delays_ms') IS DISTINCT FROM 'array'
                    OR p_retry->'delays_ms' = '[]'
                THEN 'delays_ms must be a list of delays' END
            ELSE CASE
                WHEN NOT consign.is_between(p_retry->'factor', 1, 100) THEN 'factor must be from 1 to 100'
                WHEN NOT consign.is_between(p_retry->'jitter', 0, 1) THEN 'jitter must be from 0 to 1'
                WHEN NOT consign.is_between(p_retry->'max_ms', 0, v_year_ms) THEN 'max_ms must be from 0 to a year'
                WHEN NOT consign.is_between(p_retry->'base_ms', 0, (p_retry->>'max_ms')::float8)
                    THEN 'base_ms must be from 0 to max_ms' END
        END;
    END IF;
    IF v_wrong IS NULL AND p_retry->>'kind' = 'table' THEN
        SELECT 'every delay must be from 0 to a year' INTO v_wrong
            FROM jsonb_array_elements(p_retry->'delays_ms') d WHERE NOT consign.is_between(d, 0, v_year_ms) LIMIT 1;
    END IF;
    IF v_wrong IS NOT NULL THEN
        RAISE EXCEPTION 'policy.retry: %', v_wrong USING ERRCODE = 'CN006';
    END IF;
END $$;
REVOKE ALL ON FUNCTION consign.check_retry(jsonb) FROM PUBLIC;

CREATE FUNCTION consign.check_policy(p_policy jsonb) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_unknown text;
    v_wrong   text;
BEGIN
    SELECT k INTO v_unknown FROM jsonb_object_keys(p_policy) k
        WHERE NOT consign.default_policy() ? k LIMIT 1;
    IF v_unknown IS NOT NULL THEN
        RAISE EXCEPTION 'policy.%: unknown field', v_unknown
            USING ERRCODE = 'CN006', HINT = 'Known fields: '
                || (SELECT string_agg(k, ', ') FROM jsonb_object_keys(consign.default_policy()) k);
    END IF;
    v_wrong := CASE
        WHEN NOT consign.is_between(p_policy->'lease_ttl_ms', 1, 86400000)
            THEN 'lease_ttl_ms: is ' || coalesce(p_policy->>'lease_ttl_ms', 'null') || '; must be 1 ms to 24 h'
        WHEN NOT consign.is_between(p_policy->'lease_ttl_max_ms', 1, 86400000)
            THEN 'lease_ttl_max_ms: is ' || coalesce(p_policy->>'lease_ttl_max_ms', 'null') || '; must be 1 ms to 24 h'
        WHEN (p_policy->>'lease_ttl_ms')::numeric > (p_policy->>'lease_ttl_max_ms')::numeric
            THEN 'lease_ttl_ms: must not be more than lease_ttl_max_ms, ' || (p_policy->>'lease_ttl_max_ms')
        WHEN NOT consign.is_between(p_policy->'attempts_max', 1, 10000) THEN 'attempts_max: must be from 1 to 10000'
        WHEN NOT consign.is_between(p_policy->'payload_max_bytes', 1, 67108864)
            THEN 'payload_max_bytes: must be from 1 to 64 MiB'
        WHEN NOT consign.is_between(p_policy->'claim_max_bytes', 1, 268435456)
            THEN 'claim_max_bytes: must be from 1 to 256 MiB'
        WHEN NOT coalesce(p_policy->>'on_uncertain' IN ('resend', 'probe', 'hold'), false)
            THEN 'on_uncertain: must be resend, probe or hold'
        WHEN NOT coalesce(p_policy->>'on_dead' IN ('block', 'continue'), false)
            THEN 'on_dead: must be block or continue'
        WHEN jsonb_typeof(p_policy->'ordered') IS DISTINCT FROM 'boolean' THEN 'ordered: must be true or false'
        WHEN jsonb_typeof(p_policy->'notify') IS DISTINCT FROM 'boolean' THEN 'notify: must be true or false'
        WHEN jsonb_typeof(p_policy->'record_begin') IS DISTINCT FROM 'boolean' THEN 'record_begin: must be true or false'
        WHEN jsonb_typeof(p_policy->'presume_begun') IS DISTINCT FROM 'boolean' THEN 'presume_begun: must be true or false'
        WHEN jsonb_typeof(p_policy->'hold_codes') IS DISTINCT FROM 'array' THEN 'hold_codes: must be a list of codes'
        WHEN jsonb_array_length(p_policy->'hold_codes') > 16
            OR EXISTS (SELECT FROM jsonb_array_elements(p_policy->'hold_codes') c
                           WHERE jsonb_typeof(c) <> 'string' OR octet_length(c#>>'{}') NOT BETWEEN 1 AND 128)
            THEN 'hold_codes: must be at most 16 codes of 1 to 128 bytes'
        WHEN NOT consign.is_between(p_policy->'concurrency', 1, 1000) THEN 'concurrency: must be from 1 to 1000'
        WHEN NOT consign.is_between(p_policy->'timeout_ms', 1, 86400000) THEN 'timeout_ms: must be from 1 ms to 24 h'
        -- JSON's null means no limit; the stored policy still has the field.
        WHEN p_policy->'rate_per_second' <> 'null' AND NOT consign.is_between(p_policy->'rate_per_second', 1, 4294967295)
            THEN 'rate_per_second: must be at least 1, or null for no limit; consign.pause() stops a queue'
        WHEN p_policy->'total_concurrency' <> 'null' AND NOT consign.is_between(p_policy->'total_concurrency', 1, 10000)
            THEN 'total_concurrency: must be from 1 to 10000, or null for no limit'
        WHEN p_policy->'total_rate_per_second' <> 'null' AND NOT consign.is_between(p_policy->'total_rate_per_second', 1, 10000)
            THEN 'total_rate_per_second: must be from 1 to 10000, or null for no limit'
        WHEN jsonb_typeof(p_policy->'archive') IS DISTINCT FROM 'boolean' THEN 'archive: must be true or false'
        WHEN p_policy->'keep_ms' <> 'null' AND NOT consign.is_between(p_policy->'keep_ms', 0, 3162240000000)
            THEN 'keep_ms: must be from 0 to 100 years, or null to keep for ever'
        WHEN p_policy->'keep_dead_ms' <> 'null' AND NOT consign.is_between(p_policy->'keep_dead_ms', 0, 3162240000000)
            THEN 'keep_dead_ms: must be from 0 to 100 years, or null to keep for ever'
        WHEN p_policy->'keep_keys_ms' <> 'null' AND NOT consign.is_between(p_policy->'keep_keys_ms', 0, 3162240000000)
            THEN 'keep_keys_ms: must be from 0 to 100 years, or null to keep for ever'
        WHEN NOT coalesce(jsonb_typeof(p_policy->'alert_queue') IN ('string', 'null'), false)
            THEN 'alert_queue: must be the name of a queue, or null for no alerts'
        WHEN NOT consign.is_between(p_policy->'alert_interval_ms', 1000, 2592000000)
            THEN 'alert_interval_ms: is ' || coalesce(p_policy->>'alert_interval_ms', 'null') || '; must be from 1 s to 30 days'
        WHEN p_policy->'alert_age_ms' <> 'null' AND NOT consign.is_between(p_policy->'alert_age_ms', 1, 2592000000)
            THEN 'alert_age_ms: must be from 1 ms to 30 days, or null to watch no age'
        WHEN EXISTS (SELECT FROM unnest(ARRAY['lease_ttl_ms', 'lease_ttl_max_ms', 'attempts_max', 'payload_max_bytes', 'claim_max_bytes',
                                              'concurrency', 'rate_per_second', 'total_concurrency', 'total_rate_per_second', 'timeout_ms',
                                              'keep_ms', 'keep_dead_ms', 'keep_keys_ms',
                                              'alert_interval_ms', 'alert_age_ms']) f
                         WHERE (p_policy->>f)::numeric <> trunc((p_policy->>f)::numeric))
            THEN 'numbers other than those of retry must be whole: lease_ttl_ms, lease_ttl_max_ms, attempts_max, payload_max_bytes, claim_max_bytes, concurrency, rate_per_second, total_concurrency, total_rate_per_second, timeout_ms, keep_ms, keep_dead_ms, keep_keys_ms, alert_interval_ms, alert_age_ms'
    END;
    IF v_wrong IS NOT NULL THEN
        RAISE EXCEPTION 'policy.%', v_wrong USING ERRCODE = 'CN006';
    END IF;
    PERFORM consign.check_retry(p_policy->'retry');
END $$;
REVOKE ALL ON FUNCTION consign.check_policy(jsonb) FROM PUBLIC;

-- Rejects an alert queue that cannot take alerts of a queue.
CREATE FUNCTION consign.check_alert_queue(p_queue text, p_alert_queue text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_why text;
BEGIN
    SELECT CASE WHEN p_alert_queue = p_queue THEN 'must be another queue than the one that the alerts are about'
                WHEN q.policy IS NULL THEN 'must exist; create it first, with consign.put_queue() or `consign queues set`'
                WHEN q.hooks <> '{}' THEN 'must not be the queue of an app, which decides about its messages; create a queue for alerts' END
        INTO v_why FROM (VALUES (0)) AS one LEFT JOIN consign.queue q ON q.name = p_alert_queue;
    IF v_why IS NOT NULL THEN
        RAISE EXCEPTION 'policy.alert_queue: is %; %', p_alert_queue, v_why USING ERRCODE = 'CN006';
    END IF;
END $$;
REVOKE ALL ON FUNCTION consign.check_alert_queue(text, text) FROM PUBLIC;

-- The delay after the p_tries-th failed try (from 1); p_chance in [0, 1) spreads it. The same table as
-- RetrySchedule::delay in the kernel; a test compares the two.
CREATE FUNCTION consign.retry_delay(p_retry jsonb, p_tries int, p_chance float8) RETURNS interval
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT interval '1 millisecond' * CASE p_retry->>'kind'
        WHEN 'fixed' THEN (p_retry->>'delay_ms')::float8
        WHEN 'table' THEN
            (p_retry->'delays_ms'->>(least(p_tries, jsonb_array_length(p_retry->'delays_ms')) - 1))::float8
        ELSE floor(least((p_retry->>'max_ms')::float8,
                         -- 2^1000 times anything is past every cap and still a number.
                         (p_retry->>'base_ms')::float8
                             * power(least((p_retry->>'factor')::float8, 100),
                                     least(p_tries - 1, CASE WHEN (p_retry->>'factor')::float8 > 2 THEN 140 ELSE 900 END)))
                   * (1 + (p_retry->>'jitter')::float8 * (2 * p_chance - 1)))
        END
    $$;
REVOKE ALL ON FUNCTION consign.retry_delay(jsonb, int, float8) FROM PUBLIC;

-- The queue, or the error that every function gives for one that does not exist (CN001).
CREATE FUNCTION consign.known_queue(p_queue text) RETURNS consign.queue
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_queue consign.queue;
BEGIN
    SELECT * INTO v_queue FROM consign.queue WHERE name = p_queue AND policy IS NOT NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'queue % does not exist', quote_nullable(p_queue)
            USING ERRCODE = 'CN001', DETAIL = jsonb_build_object('queue', p_queue)::text,
                  HINT = 'Create it with consign.put_queue() or `consign queues set`.';
    END IF;
    RETURN v_queue;
END $$;
REVOKE ALL ON FUNCTION consign.known_queue(text) FROM PUBLIC;

-- Whether the caller may claim from a queue. One that does not exist has the default workers.
CREATE FUNCTION consign.may_work(p_queue text) RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER
    RETURN pg_has_role(consign.acting_role(), current_user, 'USAGE')
        OR EXISTS (SELECT FROM pg_roles r
                       WHERE r.rolname = ANY (coalesce((SELECT q.workers FROM consign.queue q WHERE q.name = p_queue), '{consign_worker}'))
                           AND pg_has_role(consign.acting_role(), r.oid, 'USAGE'));
REVOKE ALL ON FUNCTION consign.may_work(text) FROM PUBLIC;

CREATE FUNCTION consign.refuse_queue(p_queue text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_roles text := (SELECT nullif(array_to_string(q.workers, ', '), '') FROM consign.queue q WHERE q.name = p_queue);
BEGIN
    RAISE EXCEPTION 'permission denied: % may not work queue %', consign.acting_role(), quote_nullable(p_queue)
        USING ERRCODE = 'insufficient_privilege',
              HINT = coalesce('Its workers are members of ' || v_roles, 'It has no workers') || ': see consign.queue.workers.';
END $$;
REVOKE ALL ON FUNCTION consign.refuse_queue(text) FROM PUBLIC;

-- Notifies the workers of a queue at commit, whether they sleep or not, if its policy says so. Commits that notify wait
-- for each other, so this is for rare events; batches wake by the trigger on consign.ready.
CREATE FUNCTION consign.wake(p_queue consign.queue, p_due_at timestamptz) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF (p_queue.policy->>'notify')::boolean THEN
        PERFORM pg_notify('consign', p_queue.name || CASE WHEN p_due_at > consign.clock() THEN ' later' ELSE '' END);
    END IF;
END $$;
REVOKE ALL ON FUNCTION consign.wake(consign.queue, timestamptz) FROM PUBLIC;

-- Makes a function the hook of a queue's event, or removes the hook (p_function NULL). A hook runs in the transaction of
-- the change, once for all messages of a call, as the owner of this schema; if it fails, the change fails. The queue
-- need not exist yet. For the owner only.
--
--   policy   completes a policy (fields as given) and rejects what the queue cannot have
--   check    rejects messages before their keys are looked up
--   enqueued, settled, expired, moved, discarded, late   follow a change: queue, messages, and what the change was: nothing,
--            the fence of the lease, the fence, the action (requeue, hold, unhold), the action (discard, cancel), the token of
--            the late results. Messages of a queue with hooks but without `discarded` are neither discarded nor cancelled
--   resolve  makes the result that the attempt of an operator's resolution keeps
--   needed   returns which messages of a range must not leave yet: queue, first id, id after the last, the time that counts.
--            It runs before the departure; a message that is not needed stays so until it is requeued
--   departed deletes rows of messages that have left: queue, first id, id after the last, how many rows at most; returns
--            how many. It runs after the departure, when consign.message has what stayed, in transactions of its own,
--            until it returns fewer
--   forgotten   keys of messages that have left were forgotten: queue, messages
--   erased   removes what the app has of the content of messages, which are erased in this transaction: queue, messages, when.
--            Their payloads and results can still be read. Messages that are `needed` are not erased, and none of a queue with
--            hooks but without this one
--   keeps    returns the names of the members of results that an erasure leaves: queue
CREATE FUNCTION consign.set_hook(p_queue text, p_event text, p_function text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_arguments CONSTANT text := CASE p_event
        WHEN 'policy' THEN 'jsonb'
        WHEN 'check' THEN 'text,bigint[],text[],text[],jsonb[],jsonb[]'
        WHEN 'enqueued' THEN 'text,bigint[]'
        WHEN 'settled' THEN 'text,bigint[],bigint'
        WHEN 'expired' THEN 'text,bigint[],bigint'
        WHEN 'moved' THEN 'text,bigint[],text'
        WHEN 'discarded' THEN 'text,bigint[],text'
        WHEN 'late' THEN 'text,bigint[],uuid'
        WHEN 'resolve' THEN 'consign.message,text,jsonb'
        WHEN 'needed' THEN 'text,bigint,bigint,timestamptz'
        WHEN 'departed' THEN 'text,bigint,bigint,int'
        WHEN 'forgotten' THEN 'text,bigint[]'
        WHEN 'erased' THEN 'text,bigint[],timestamptz'
        WHEN 'keeps' THEN 'text' END;
    v_function  regprocedure;
    v_hook      jsonb := '{}';
BEGIN
    IF v_arguments IS NULL THEN
        RAISE EXCEPTION 'event %: unknown', quote_nullable(p_event) USING ERRCODE = 'CN006',
            HINT = 'Known events: policy, check, enqueued, settled, expired, moved, discarded, late, resolve, needed, departed, forgotten, erased, keeps.';
    END IF;
    IF p_function IS NOT NULL THEN
        v_function := to_regprocedure(p_function || '(' || v_arguments || ')');
        IF v_function IS NULL THEN
            RAISE EXCEPTION 'function %(%) does not exist', p_function, v_arguments
                USING ERRCODE = 'CN006', HINT = 'Name it with its schema: shop.mail_sent.';
        END IF;
        SELECT jsonb_build_object(p_event, format('%I.%I', n.nspname, p.proname)) INTO v_hook
            FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE p.oid = v_function;
    END IF;
    INSERT INTO consign.queue AS q (name, hooks) VALUES (p_queue, v_hook)
        ON CONFLICT (name) DO UPDATE SET hooks = (q.hooks - p_event) || excluded.hooks;
END $$;
REVOKE ALL ON FUNCTION consign.set_hook(text, text, text) FROM PUBLIC;

-- Calls the hooks of an event of the queues that these messages are of; p_change is their third argument.
CREATE FUNCTION consign.call_hooks(p_event text, p_ids bigint[], p_change anyelement) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_hook record;
BEGIN
    FOR v_hook IN
        SELECT q.name, q.hooks->>p_event AS function, array_agg(m.id ORDER BY m.id) AS ids
            FROM consign.message m JOIN consign.queue q ON q.name = m.queue
            WHERE m.id = ANY (p_ids) AND m.id BETWEEN consign.least_id(p_ids) AND consign.greatest_id(p_ids) AND q.hooks ? p_event GROUP BY q.name ORDER BY q.name
    LOOP
        EXECUTE format('SELECT %s($1, $2, $3)', v_hook.function) USING v_hook.name, v_hook.ids, p_change;
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION consign.call_hooks(text, bigint[], anyelement) FROM PUBLIC;

-- What a result keeps when its message is erased: the members that the app of the queue keeps, or NULL.
CREATE FUNCTION consign.kept(p_queue text, p_result jsonb) RETURNS jsonb
    LANGUAGE plpgsql STABLE STRICT SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_hook CONSTANT text := (SELECT q.hooks->>'keeps' FROM consign.queue q WHERE q.name = p_queue);
    v_names text[];
BEGIN
    IF v_hook IS NULL OR jsonb_typeof(p_result) <> 'object' THEN
        RETURN NULL;
    END IF;
    EXECUTE format('SELECT %s($1)', v_hook) INTO v_names USING p_queue;
    RETURN (SELECT jsonb_object_agg(r.key, r.value) FROM jsonb_each(p_result) r WHERE r.key = ANY (v_names));
END $$;
REVOKE ALL ON FUNCTION consign.kept(text, jsonb) FROM PUBLIC;

-- Creates a queue or changes its policy; fields left out have the default, which the `policy` hook of an app's queue may set.
CREATE FUNCTION consign.put_queue(p_queue text, p_policy jsonb, p_actor text, p_reason text) RETURNS consign.queue
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    -- Every other statement waits behind a waiting exclusive lock, so it must not wait long.
    SET lock_timeout = '2s'
    AS $$
DECLARE
    v_policy jsonb;
    v_old    jsonb;
    v_hooks  jsonb;
    v_queue  consign.queue;
    -- Groups that dead messages block go on.
    v_moves_on boolean;
BEGIN
    PERFORM consign.require_read_committed();
    IF jsonb_typeof(p_policy) IS DISTINCT FROM 'object' THEN
        RAISE EXCEPTION 'policy: must be a JSON object' USING ERRCODE = 'CN006';
    END IF;
    v_hooks := coalesce((SELECT q.hooks FROM consign.queue q WHERE q.name = p_queue), '{}');
    IF v_hooks ? 'policy' THEN
        EXECUTE format('SELECT %s($1)', v_hooks->>'policy') INTO v_policy USING p_policy;
    ELSE
        v_policy := consign.default_policy() || p_policy;
    END IF;
    -- One change of queues at a time; readers are not held up.
    LOCK TABLE consign.queue IN SHARE ROW EXCLUSIVE MODE;
    PERFORM consign.require_reason(p_actor, p_reason);
    PERFORM consign.check_policy(v_policy);
    IF v_policy->>'alert_queue' IS NOT NULL THEN
        PERFORM consign.check_alert_queue(p_queue, v_policy->>'alert_queue');
    END IF;
    SELECT policy INTO v_old FROM consign.queue WHERE name = p_queue;
    v_moves_on := FOUND AND v_old->>'on_dead' = 'block' AND v_policy->>'on_dead' = 'continue';
    IF FOUND AND (v_old->'ordered' <> v_policy->'ordered' OR v_moves_on) THEN
        -- Every transaction that works with a queue has read this table: the lock waits for all of them, and later ones
        -- see the new policy: none leaves a group behind a message that dies.
        BEGIN
            LOCK TABLE consign.queue IN ACCESS EXCLUSIVE MODE;
        EXCEPTION WHEN lock_not_available THEN
            IF v_old->'ordered' = v_policy->'ordered' THEN
                RAISE;
            END IF;
            RAISE EXCEPTION 'queue % cannot change its order while a transaction that works with queues stays open', p_queue
                USING ERRCODE = 'CN007', DETAIL = jsonb_build_object('queue', p_queue)::text,
                      HINT = 'Try again when no enqueue is under way.';
        END;
        IF v_old->'ordered' <> v_policy->'ordered'
            AND (EXISTS (SELECT FROM consign.ready WHERE queue = p_queue)
                 OR EXISTS (SELECT FROM consign.lease WHERE queue = p_queue)
                 OR EXISTS (SELECT FROM consign.held WHERE queue = p_queue)
                 OR EXISTS (SELECT FROM consign.waiting WHERE queue = p_queue)
                 OR EXISTS (SELECT FROM consign.group_head WHERE queue = p_queue AND message_id IS NOT NULL))
        THEN
            RAISE EXCEPTION 'queue % has unfinished messages, so ordered cannot change', p_queue
                USING ERRCODE = 'CN007', DETAIL = jsonb_build_object('queue', p_queue)::text, HINT = 'Drain the queue first.';
        END IF;
    END IF;
    INSERT INTO consign.queue (name, policy) VALUES (p_queue, v_policy)
        ON CONFLICT (name) DO UPDATE SET policy = excluded.policy
        RETURNING * INTO v_queue;
    IF v_moves_on AND (v_policy->>'ordered')::boolean THEN
        -- All other operations wait meanwhile, so the groups are not promoted one by one: their heads are opened, and
        -- this fills as many as a claim would. The next claims fill the others.
        UPDATE consign.group_head t SET message_id = NULL FROM consign.dead d WHERE t.queue = p_queue AND d.message_id = t.message_id;
        PERFORM consign.fill_open_heads(p_queue, consign.clock());
    END IF;
    -- It was begun by another policy.
    UPDATE consign.departure d SET state = 'stopped' WHERE d.state IN ('copying', 'open', 'archived');
    UPDATE consign.range r SET look_at = '-infinity', size_look_at = '-infinity'
        WHERE r.look_at > '-infinity' OR r.size_look_at > '-infinity';
    INSERT INTO consign.audit (at, actor, action, queue, reason)
        VALUES (consign.clock(), p_actor, 'queue', p_queue, p_reason);
    RETURN v_queue;
END $$;
REVOKE ALL ON FUNCTION consign.put_queue(text, jsonb, text, text) FROM PUBLIC;

CREATE FUNCTION consign.set_paused(p_queue text, p_paused boolean, p_actor text, p_reason text) RETURNS consign.queue
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_queue consign.queue;
BEGIN
    PERFORM consign.require_reason(p_actor, p_reason);
    -- The update comes before any read of the table, or this could deadlock with put_queue.
    UPDATE consign.queue
        SET paused_at = CASE WHEN p_paused THEN coalesce(paused_at, consign.clock()) END
        WHERE name = p_queue AND policy IS NOT NULL
        RETURNING * INTO v_queue;
    IF NOT FOUND THEN
        PERFORM consign.known_queue(p_queue);
    END IF;
    INSERT INTO consign.audit (at, actor, action, queue, reason)
        VALUES (consign.clock(), p_actor, CASE WHEN p_paused THEN 'pause' ELSE 'resume' END, p_queue, p_reason);
    PERFORM consign.wake(v_queue, '-infinity');
    RETURN v_queue;
END $$;
REVOKE ALL ON FUNCTION consign.set_paused(text, boolean, text, text) FROM PUBLIC;

-- Stops claims from a queue; leases in flight may finish.
CREATE FUNCTION consign.pause(p_queue text, p_actor text, p_reason text) RETURNS consign.queue
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS 'SELECT consign.set_paused(p_queue, true, p_actor, p_reason)';
REVOKE ALL ON FUNCTION consign.pause(text, text, text) FROM PUBLIC;

-- Allows claims from a paused queue again.
CREATE FUNCTION consign.resume(p_queue text, p_actor text, p_reason text) RETURNS consign.queue
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS 'SELECT consign.set_paused(p_queue, false, p_actor, p_reason)';
REVOKE ALL ON FUNCTION consign.resume(text, text, text) FROM PUBLIC;

INSERT INTO consign.queue (name, policy) VALUES ('default', consign.default_policy());
