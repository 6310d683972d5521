-- Producing: in the caller's own transaction.

-- Where a message is, without walking the ready runs: what is nowhere else is ready. NULL if there
-- is no such message.
-- Parsed now rather than when called, so that it needs no search_path and can be inlined.
CREATE FUNCTION consign.state_of(p_id bigint) RETURNS text
    LANGUAGE sql STABLE
    RETURN CASE
        WHEN EXISTS (SELECT FROM consign.dead WHERE message_id = p_id) THEN 'dead'
        WHEN EXISTS (SELECT FROM consign.held WHERE message_id = p_id) THEN 'held'
        WHEN EXISTS (SELECT FROM consign.waiting WHERE message_id = p_id) THEN 'waiting'
        WHEN EXISTS (SELECT FROM consign.attempt WHERE message_id = p_id AND outcome = 'delivered') THEN 'delivered'
        WHEN EXISTS (SELECT FROM consign.lease WHERE p_id = ANY (ids)) THEN 'leased'
        WHEN EXISTS (SELECT FROM consign.message WHERE id = p_id) THEN 'ready'
    END;
REVOKE ALL ON FUNCTION consign.state_of(bigint) FROM PUBLIC;

-- Puts messages into ready runs of at most 200, so that a row stays below the TOAST threshold. They have no more than
-- p_bytes together.
CREATE FUNCTION consign.make_ready(p_queue text, p_due_at timestamptz, p_ids bigint[], p_tries int[],
                                   p_attempts int[], p_apart boolean, p_bytes bigint DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    FOR v_from IN 1 .. coalesce(cardinality(p_ids), 0) BY 200 LOOP
        INSERT INTO consign.ready (queue, due_at, apart, bytes, ids, tries, attempts)
            VALUES (p_queue, p_due_at, p_apart, p_bytes, p_ids[v_from : v_from + 199],
                    p_tries[v_from : v_from + 199], p_attempts[v_from : v_from + 199]);
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION consign.make_ready(text, timestamptz, bigint[], int[], int[], boolean, bigint) FROM PUBLIC;

-- Takes the turn of a group for a message if it is free. False: it must wait.
--
-- The key-share lock keeps the turn's row from being deleted until this transaction ends, without
-- keeping a settle from passing the turn on: a message that starts to wait is always seen by
-- whoever decides about the row later.
CREATE FUNCTION consign.take_turn(p_queue text, p_group text, p_id bigint) RETURNS boolean
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_turn bigint;
BEGIN
    LOOP
        INSERT INTO consign.turn (queue, "group", message_id) VALUES (p_queue, p_group, p_id)
            ON CONFLICT DO NOTHING;
        IF FOUND THEN
            RETURN true;
        END IF;
        SELECT message_id INTO v_turn FROM consign.turn
            WHERE queue = p_queue AND "group" = p_group FOR KEY SHARE;
        IF FOUND AND v_turn = p_id THEN
            RETURN true;
        ELSIF FOUND AND v_turn IS NOT NULL THEN
            RETURN false;
        ELSIF FOUND AND (
            EXISTS (SELECT FROM consign.waiting WHERE queue = p_queue AND "group" = p_group AND message_id < p_id)
            OR EXISTS (SELECT FROM consign.held WHERE queue = p_queue AND "group" = p_group AND message_id < p_id))
        THEN
            -- The turn is open and somebody before it waits or is held: the next claim decides.
            RETURN false;
        ELSIF FOUND THEN
            UPDATE consign.turn SET message_id = p_id
                WHERE queue = p_queue AND "group" = p_group AND message_id IS NULL;
            IF FOUND THEN
                RETURN true;
            END IF;
        END IF;
        -- The row vanished or changed between the statements: look again.
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION consign.take_turn(text, text, bigint) FROM PUBLIC;

-- Length of a document as compact JSON: the text that jsonb prints less the space after every comma and colon.
--
-- Without escaped backslashes and quotes, every quote begins or ends a string, and every other piece between
-- quotes is outside of strings. jsonb_path_query('$.**') would take time by the square of the number of values.
CREATE FUNCTION consign.compact_bytes(p_text text) RETURNS bigint
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on
    AS $$
    SELECT octet_length(p_text) - coalesce(sum(octet_length(u.piece) - octet_length(replace(u.piece, ' ', ''))), 0)
        FROM unnest(string_to_array(replace(replace(p_text, E'\\\\', ''), E'\\"', ''), '"'))
            WITH ORDINALITY AS u (piece, place)
        WHERE u.place % 2 = 1 $$;
REVOKE ALL ON FUNCTION consign.compact_bytes(text) FROM PUBLIC;

-- The largest payload that each of these queues takes, as compact JSON. A producer with a large payload asks before
-- it sends it.
CREATE FUNCTION consign.payload_limits(p_queues text[]) RETURNS TABLE (queue text, bytes_max bigint)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    RETURN QUERY SELECT u, ((consign.known_queue(u)).policy->>'payload_max_bytes')::bigint FROM unnest(p_queues) u;
END $$;
REVOKE ALL ON FUNCTION consign.payload_limits(text[]) FROM PUBLIC;

-- Whether every reader can read these headers.
CREATE FUNCTION consign.is_readable(p_headers jsonb) RETURNS boolean
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT p_headers IS NULL OR p_headers = '{}' OR NOT (
        jsonb_path_exists(p_headers, 'strict $.**{100} ? (@.type() == "array" || @.type() == "object")')
        OR jsonb_path_exists(p_headers, 'strict $.** ? (@.type() == "number") ? (@ > 1e308 || @ < -1e308)')) $$;
REVOKE ALL ON FUNCTION consign.is_readable(jsonb) FROM PUBLIC;

-- Refuses messages that their queue does not take; returns how many bytes of payloads and headers the others have.
CREATE FUNCTION consign.check_messages(p_queue consign.queue, p_payloads jsonb[], p_keys text[], p_groups text[],
                                       p_headers jsonb[], p_delay interval, p_delays interval[], p_positions int[]) RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_bytes_max bigint := (p_queue.policy->>'payload_max_bytes')::bigint;
    v_bytes     bigint;
    v_first     int;
    v_wrong     record;
BEGIN
    -- The text is what is sent, and only it tells its length: 1e1000 is a few bytes of jsonb. Its spaces do not
    -- count, and are taken off where they could matter.
    SELECT sum(m.bytes + m.header_bytes), min(m.index) FILTER (WHERE m.payload IS NULL
            OR CASE WHEN m.bytes > v_bytes_max THEN consign.compact_bytes(m.payload::text) > v_bytes_max ELSE false END
            OR jsonb_path_exists(m.payload, 'strict $.**{100} ? (@.type() == "array" || @.type() == "object")')
            OR m.key = '' OR octet_length(m.key) > 512 OR m."group" = '' OR octet_length(m."group") > 512
            OR jsonb_typeof(m.headers) <> 'object' OR NOT consign.is_readable(m.headers)
            OR CASE WHEN m.header_bytes > 65536 THEN consign.compact_bytes(m.headers::text) > 65536 ELSE false END)
        INTO v_bytes, v_first
        -- OFFSET 0: each text is made once.
        FROM (SELECT *, octet_length(u.payload::text) AS bytes, coalesce(octet_length(u.headers::text), 2) AS header_bytes
                  FROM unnest(p_payloads, p_keys, p_groups, p_headers)
                      WITH ORDINALITY AS u (payload, key, "group", headers, index) OFFSET 0) m;
    -- What is wrong with the first that is.
    SELECT coalesce(p_positions[v_first], v_first) - 1 AS index, m.bytes > v_bytes_max AS too_large, m.bytes,
           jsonb_path_exists(p_payloads[v_first], 'strict $.**{100} ? (@.type() == "array" || @.type() == "object")') AS is_deep
        INTO v_wrong
        FROM (SELECT consign.compact_bytes(p_payloads[v_first]::text) AS bytes) m
        WHERE v_first IS NOT NULL;
    IF FOUND AND v_wrong.too_large THEN
        RAISE EXCEPTION 'message %: payload is % bytes, the queue allows %', v_wrong.index, v_wrong.bytes, v_bytes_max
            USING ERRCODE = 'CN005', HINT = 'Store the data elsewhere and send a reference, or raise payload_max_bytes.',
                  DETAIL = jsonb_build_object('queue', p_queue.name, 'index', v_wrong.index, 'bytes', v_wrong.bytes, 'bytes_max', v_bytes_max)::text;
    ELSIF FOUND AND v_wrong.is_deep THEN
        RAISE EXCEPTION 'message %: payload is nested more than 100 levels deep', v_wrong.index USING ERRCODE = 'CN006';
    ELSIF FOUND THEN
        RAISE EXCEPTION 'message %: the payload must not be null, key and group must be 1 to 512 bytes, headers an object of at most 64 KiB and 100 levels whose numbers a double can hold', v_wrong.index
            USING ERRCODE = 'CN006';
    END IF;
    IF coalesce(consign.exact(p_delay) NOT BETWEEN interval '0' AND interval '366 days', p_delays IS NULL)
        OR EXISTS (SELECT FROM unnest(p_delays) d WHERE coalesce(consign.exact(d) NOT BETWEEN interval '0' AND interval '366 days', true))
    THEN
        RAISE EXCEPTION 'delay must be from 0 to a year' USING ERRCODE = 'CN006';
    END IF;
    RETURN v_bytes;
END $$;
REVOKE ALL ON FUNCTION consign.check_messages(consign.queue, jsonb[], text[], text[], jsonb[], interval, interval[], int[]) FROM PUBLIC;

-- The error for a key that names another message already; p_id is NULL if that is in the same call.
CREATE FUNCTION consign.refuse_conflict(p_queue text, p_key text, p_id bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    RAISE EXCEPTION 'key % in queue % already names %, whose payload or group differs', quote_literal(p_key), p_queue,
            coalesce('message ' || p_id, 'another message of this call')
        USING ERRCODE = 'CN002', HINT = 'Use a new key, or send what was sent before.',
              DETAIL = jsonb_build_object('queue', p_queue, 'key', p_key, 'id', p_id)::text;
END $$;
REVOKE ALL ON FUNCTION consign.refuse_conflict(text, text, bigint) FROM PUBLIC;

-- Enqueues messages of one queue under ids reserved for them; p_delays, where given, are the
-- messages' own delays instead of p_delay.
--
-- p_positions are the messages' places in the caller's call, for errors; p_call_ids all ids that
-- were reserved for that call: a key taken by one of them conflicts with a message that will not
-- exist.
CREATE FUNCTION consign.enqueue_numbered(p_queue text, p_ids bigint[], p_payloads jsonb[], p_keys text[], p_groups text[],
                                         p_headers jsonb[], p_delay interval, p_delays interval[], p_positions int[],
                                         p_call_ids bigint[])
    RETURNS TABLE (id bigint, duplicate boolean, state text)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_queue     consign.queue := consign.known_queue(p_queue);
    v_now      timestamptz := consign.clock();
    v_new      bigint[];
    v_ready    bigint[];
    v_zeros    int[];
    v_bytes    bigint;
    v_conflict record;
BEGIN
    IF v_queue.hooks ? 'check' THEN
        EXECUTE format('SELECT %s($1, $2, $3, $4, $5, $6)', v_queue.hooks->>'check')
            USING p_queue, p_ids, p_keys, p_groups, p_payloads, p_headers;
    END IF;
    v_bytes := consign.check_messages(v_queue, p_payloads, p_keys, p_groups, p_headers, p_delay, p_delays, p_positions);
    WITH fresh AS (
        INSERT INTO consign.message (id, created_at, queue, key, "group", payload, headers)
        SELECT m.id, v_now, p_queue, m.key, m."group", m.payload, coalesce(m.headers, '{}')
            FROM unnest(p_ids, p_payloads, p_keys, p_groups, p_headers) AS m (id, payload, key, "group", headers)
            -- Keys in one order everywhere, or two producers could wait for each other.
            ORDER BY m.key, m.id
        ON CONFLICT (queue, key) WHERE key IS NOT NULL DO NOTHING
        RETURNING message.id)
    SELECT coalesce(array_agg(fresh.id ORDER BY fresh.id), '{}') INTO v_new FROM fresh;

    IF cardinality(v_new) < cardinality(p_ids) THEN
        SELECT m.key, t.id INTO v_conflict
            FROM unnest(p_ids, p_payloads, p_keys, p_groups)
                WITH ORDINALITY AS m (id, payload, key, "group", ord)
            JOIN consign.message t ON t.queue = p_queue AND t.key = m.key
            WHERE t.id <> m.id AND (t.payload <> m.payload OR t."group" IS DISTINCT FROM m."group")
            ORDER BY m.ord LIMIT 1;
        IF FOUND THEN
            PERFORM consign.refuse_conflict(p_queue, v_conflict.key,
                                            CASE WHEN NOT v_conflict.id = ANY (p_call_ids) THEN v_conflict.id END);
        END IF;
    END IF;

    v_ready := v_new;
    IF (v_queue.policy->>'ordered')::boolean AND p_groups IS NOT NULL THEN
        v_ready := consign.take_turns(p_queue, v_new, p_ids, v_now, p_delay, p_delays, v_bytes);
    END IF;
    IF cardinality(v_ready) > 0 AND p_delays IS NULL THEN
        v_zeros := array_fill(0, ARRAY[cardinality(v_ready)]);
        PERFORM consign.make_ready(p_queue, v_now + p_delay, v_ready, v_zeros, v_zeros, false, v_bytes);
    ELSIF cardinality(v_ready) > 0 THEN
        -- One run per delay, in order of first appearance.
        PERFORM consign.make_ready(p_queue, v_now + run.delay, run.ids, array_fill(0, ARRAY[cardinality(run.ids)]),
                                   array_fill(0, ARRAY[cardinality(run.ids)]), false, v_bytes)
            FROM (SELECT m.delay, array_agg(m.id ORDER BY m.id) AS ids
                      FROM unnest(p_ids, p_delays) AS m (id, delay) WHERE m.id = ANY (v_ready)
                      GROUP BY m.delay ORDER BY min(m.id)) run;
    END IF;
    IF v_queue.hooks ? 'enqueued' AND cardinality(v_new) > 0 THEN
        EXECUTE format('SELECT %s($1, $2)', v_queue.hooks->>'enqueued') USING p_queue, v_new;
    END IF;
    IF v_ready = p_ids THEN
        RETURN QUERY SELECT u, false, 'ready' FROM unnest(p_ids) u;
        RETURN;
    END IF;
    RETURN QUERY
        SELECT t.id, t.id <> m.id, consign.state_of(t.id)
        FROM unnest(p_ids, p_keys) WITH ORDINALITY AS m (id, key, ord),
            LATERAL (SELECT coalesce((SELECT k.id FROM consign.message k WHERE k.queue = p_queue AND k.key = m.key), m.id) AS id) t
        ORDER BY m.ord;
END $$;
REVOKE ALL ON FUNCTION consign.enqueue_numbered(text, bigint[], jsonb[], text[], text[], jsonb[], interval, interval[], int[], bigint[]) FROM PUBLIC;

-- Refuses parallel arrays of another length than the payloads: unnest would fill up with NULLs, and
-- a message would silently lose its key.
CREATE FUNCTION consign.require_same_length(p_payloads jsonb[], VARIADIC p_lengths int[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF EXISTS (SELECT FROM unnest(p_lengths) n WHERE n <> coalesce(cardinality(p_payloads), 0)) THEN
        RAISE EXCEPTION 'messages: keys, groups, headers, queues and delays must be NULL or as many as the payloads'
            USING ERRCODE = 'CN006';
    END IF;
END $$;
REVOKE ALL ON FUNCTION consign.require_same_length(jsonb[], int[]) FROM PUBLIC;

-- In PL/pgSQL because a SQL function with settings of its own is planned anew on every call.
CREATE FUNCTION consign.reserve_ids(p_count int) RETURNS bigint[]
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    RETURN ARRAY(SELECT nextval('consign.message_id_seq') FROM generate_series(1, p_count));
END $$;
REVOKE ALL ON FUNCTION consign.reserve_ids(int) FROM PUBLIC;

-- Enqueues many messages of one queue: all or none, in the order given.
--
-- A repeated key with the same payload and group answers with the first message and writes
-- nothing; with another payload or group it is an error (CN002).
CREATE FUNCTION consign.enqueue_many(p_queue text, p_payloads jsonb[], p_keys text[] DEFAULT NULL,
                                     p_groups text[] DEFAULT NULL, p_headers jsonb[] DEFAULT NULL,
                                     p_delay interval DEFAULT '0')
    RETURNS TABLE (id bigint, duplicate boolean, state text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET jit = off
    SET plan_cache_mode = force_generic_plan
    AS $$
DECLARE
    v_ids bigint[] := consign.reserve_ids(coalesce(cardinality(p_payloads), 0));
BEGIN
    PERFORM consign.require_same_length(p_payloads, cardinality(p_keys), cardinality(p_groups), cardinality(p_headers));
    RETURN QUERY SELECT * FROM consign.enqueue_numbered(
        p_queue, v_ids, p_payloads, p_keys, p_groups, p_headers, p_delay, NULL, NULL, v_ids);
END $$;
REVOKE ALL ON FUNCTION consign.enqueue_many(text, jsonb[], text[], text[], jsonb[], interval) FROM PUBLIC;

-- Enqueues messages of several queues and delays: all or none, in the order given.
CREATE FUNCTION consign.enqueue_mixed(p_queues text[], p_payloads jsonb[], p_keys text[], p_groups text[],
                                      p_headers jsonb[], p_delays interval[])
    RETURNS TABLE (id bigint, duplicate boolean, state text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET jit = off
    SET plan_cache_mode = force_generic_plan
    AS $$
DECLARE
    v_ids       bigint[] := consign.reserve_ids(coalesce(cardinality(p_payloads), 0));
    v_batch     record;
    v_answer    record;
    v_made      bigint[] := '{}';
    v_positions int[] := '{}';
    v_duplicate boolean[] := '{}';
BEGIN
    PERFORM consign.require_same_length(p_payloads, coalesce(cardinality(p_queues), -1), coalesce(cardinality(p_delays), -1),
                                        cardinality(p_keys), cardinality(p_groups), cardinality(p_headers));
    PERFORM consign.known_queue(u) FROM (SELECT DISTINCT u FROM unnest(p_queues) u) queues;
    -- Queues are not taken in the order of the messages, but the first conflict among those is named. A queue that
    -- checks its messages must not tell first whose keys are taken.
    PERFORM consign.refuse_conflict(c.queue, c.key, c.id)
        FROM (SELECT m.queue, m.key, t.id
                  FROM (SELECT u.*, first_value(u.payload) OVER twins AS first_payload,
                               first_value(u."group") OVER twins AS first_group
                            FROM unnest(p_queues, p_payloads, p_keys, p_groups)
                                WITH ORDINALITY AS u (queue, payload, key, "group", ord)
                            WHERE u.key IS NOT NULL AND NOT EXISTS (SELECT FROM consign.hook h WHERE h.queue = u.queue AND h.event = 'check')
                            WINDOW twins AS (PARTITION BY u.queue, u.key ORDER BY u.ord)) m
                  LEFT JOIN consign.message t ON t.queue = m.queue AND t.key = m.key
                  WHERE coalesce(t.payload, m.first_payload) <> m.payload
                      OR CASE WHEN t.id IS NULL THEN m.first_group ELSE t."group" END IS DISTINCT FROM m."group"
                  ORDER BY m.ord LIMIT 1) c;
    -- One call for each queue, in one order everywhere, or two producers could wait for each other.
    FOR v_batch IN
        SELECT m.queue, array_agg(m.delay ORDER BY m.ord) AS delays, array_agg(m.ord ORDER BY m.ord) AS places,
               array_agg(m.id ORDER BY m.ord) AS ids, array_agg(m.payload ORDER BY m.ord) AS payloads,
               array_agg(m.key ORDER BY m.ord) AS keys, array_agg(m."group" ORDER BY m.ord) AS groups,
               array_agg(m.headers ORDER BY m.ord) AS headers
            FROM unnest(v_ids, p_queues, p_payloads, p_keys, p_groups, p_headers, p_delays)
                WITH ORDINALITY AS m (id, queue, payload, key, "group", headers, delay, ord)
            GROUP BY m.queue ORDER BY m.queue
    LOOP
        FOR v_answer IN
            SELECT a.id, a.duplicate, v_batch.places[a.ord] AS place
                FROM consign.enqueue_numbered(
                    v_batch.queue, v_batch.ids, v_batch.payloads, v_batch.keys, v_batch.groups, v_batch.headers,
                    NULL, v_batch.delays, v_batch.places::int[], v_ids) WITH ORDINALITY AS a (id, duplicate, state, ord)
        LOOP
            v_made := v_made || v_answer.id;
            v_positions := v_positions || v_answer.place::int;
            v_duplicate := v_duplicate || v_answer.duplicate;
        END LOOP;
    END LOOP;
    RETURN QUERY SELECT a.id, a.duplicate, consign.state_of(a.id)
        FROM unnest(v_made, v_positions, v_duplicate) AS a (id, place, duplicate) ORDER BY a.place;
END $$;
REVOKE ALL ON FUNCTION consign.enqueue_mixed(text[], jsonb[], text[], text[], jsonb[], interval[]) FROM PUBLIC;

-- Of new messages (p_new, out of p_ids, no more than p_bytes together), those whose turn has come; the others are put
-- into waiting.
CREATE FUNCTION consign.take_turns(p_queue text, p_new bigint[], p_ids bigint[], p_now timestamptz, p_delay interval,
                                   p_delays interval[], p_bytes bigint) RETURNS bigint[]
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_hashjoin = on
    AS $$
DECLARE
    v_ready   bigint[] := '{}';
    v_message record;
BEGIN
    -- Groups in one order everywhere, or two producers could wait for each other.
    FOR v_message IN
        SELECT m.id, m."group", p_now + coalesce(d.delay, p_delay) AS due_at
            FROM unnest(p_ids, p_delays) AS d (id, delay) JOIN consign.message m ON m.id = d.id
            WHERE m.id = ANY (p_new) ORDER BY m."group", m.id
    LOOP
        IF v_message."group" IS NULL OR consign.take_turn(p_queue, v_message."group", v_message.id) THEN
            v_ready := v_ready || v_message.id;
        ELSE
            INSERT INTO consign.waiting (queue, "group", message_id, due_at, bytes, tries, attempts)
                VALUES (p_queue, v_message."group", v_message.id, v_message.due_at, p_bytes, 0, 0);
        END IF;
    END LOOP;
    RETURN ARRAY(SELECT u FROM unnest(v_ready) u ORDER BY u);
END $$;
REVOKE ALL ON FUNCTION consign.take_turns(text, bigint[], bigint[], timestamptz, interval, interval[], bigint) FROM PUBLIC;

-- Enqueues one message and answers with its id.
CREATE FUNCTION consign.enqueue(p_queue text, p_payload jsonb, p_key text DEFAULT NULL, p_group text DEFAULT NULL,
                                p_headers jsonb DEFAULT '{}', p_delay interval DEFAULT '0') RETURNS bigint
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT id FROM consign.enqueue_many(p_queue, ARRAY[p_payload], ARRAY[p_key], ARRAY[p_group], ARRAY[p_headers], p_delay)
    $$;
REVOKE ALL ON FUNCTION consign.enqueue(text, jsonb, text, text, jsonb, interval) FROM PUBLIC;
