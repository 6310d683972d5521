-- Enqueueing, in the caller's own transaction.

-- Where a message is, without walking the ready batches: a message that is in no other table is ready. NULL: there is no
-- such message. In PL/pgSQL, which keeps its plan.
CREATE FUNCTION consign.state_of(p_id bigint) RETURNS text
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
    AS $$
BEGIN
    RETURN CASE
        WHEN EXISTS (SELECT FROM consign.dead WHERE message_id = p_id) THEN 'dead'
        WHEN EXISTS (SELECT FROM consign.held WHERE message_id = p_id) THEN 'held'
        WHEN EXISTS (SELECT FROM consign.waiting WHERE message_id = p_id) THEN 'waiting'
        WHEN EXISTS (SELECT FROM consign.attempt WHERE message_id = p_id AND outcome = 'delivered') THEN 'delivered'
        WHEN EXISTS (SELECT FROM consign.discarded WHERE message_id = p_id) THEN 'discarded'
        WHEN EXISTS (SELECT FROM consign.lease WHERE p_id = ANY (ids)) THEN 'leased'
        WHEN EXISTS (SELECT FROM consign.message WHERE id = p_id) THEN 'ready'
    END;
END $$;
REVOKE ALL ON FUNCTION consign.state_of(bigint) FROM PUBLIC;

-- Inserts ready batches of at most 200 messages, so that a row stays below the TOAST threshold. p_bytes is an upper bound
-- for all of them together.
CREATE FUNCTION consign.make_ready(p_queue text, p_due_at timestamptz, p_ids bigint[], p_tries int[],
                                   p_attempts int[], p_isolated boolean, p_bytes bigint DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    FOR v_from IN 1 .. coalesce(cardinality(p_ids), 0) BY 200 LOOP
        INSERT INTO consign.ready (queue, due_at, isolated, bytes, ids, tries, attempts)
            VALUES (p_queue, p_due_at, p_isolated, p_bytes, p_ids[v_from : v_from + 199],
                    p_tries[v_from : v_from + 199], p_attempts[v_from : v_from + 199]);
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION consign.make_ready(text, timestamptz, bigint[], int[], int[], boolean, bigint) FROM PUBLIC;

-- Length of a document as compact JSON: the text of the jsonb less the space after every comma and colon.
--
-- Without escaped backslashes and quotes, every quote begins or ends a string, and every second piece between quotes is
-- outside of strings. jsonb_path_query('$.**') would take time by the square of the number of values.
CREATE FUNCTION consign.compact_bytes(p_text text) RETURNS bigint
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on
    AS $$
    SELECT octet_length(p_text) - coalesce(sum(octet_length(u.piece) - octet_length(replace(u.piece, ' ', ''))), 0)
        FROM unnest(string_to_array(replace(replace(p_text, E'\\\\', ''), E'\\"', ''), '"'))
            WITH ORDINALITY AS u (piece, place)
        WHERE u.place % 2 = 1 $$;
REVOKE ALL ON FUNCTION consign.compact_bytes(text) FROM PUBLIC;

-- The largest payload that each of these queues accepts, as compact JSON: a producer asks before it sends a large one.
CREATE FUNCTION consign.payload_limits(p_queues text[]) RETURNS TABLE (queue text, bytes_max bigint)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    RETURN QUERY SELECT u, ((consign.known_queue(u)).policy->>'payload_max_bytes')::bigint FROM unnest(p_queues) u;
END $$;
REVOKE ALL ON FUNCTION consign.payload_limits(text[]) FROM PUBLIC;

-- Rejects messages that their queue does not accept; returns how many bytes of payloads and headers the others have.
CREATE FUNCTION consign.check_messages(p_queue consign.queue, p_payloads jsonb[], p_keys text[], p_groups text[],
                                       p_headers jsonb[], p_positions int[]) RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_bytes_max bigint := (p_queue.policy->>'payload_max_bytes')::bigint;
    v_bytes     bigint;
    v_first     int;
    v_wrong     record;
BEGIN
    -- The text is what is sent, and only the text has that length: 1e1000 is a few bytes of jsonb. Its spaces do not
    -- count, and are subtracted where they could matter.
    SELECT sum(m.bytes + m.header_bytes), min(m.index) FILTER (WHERE m.payload IS NULL
            OR CASE WHEN m.bytes > v_bytes_max THEN consign.compact_bytes(m.payload::text) > v_bytes_max ELSE false END
            OR jsonb_path_exists(m.payload, 'strict $.**{100} ? (@.type() == "array" || @.type() == "object")')
            OR m.key = '' OR octet_length(m.key) > 512 OR m."group" = '' OR octet_length(m."group") > 512
            OR jsonb_typeof(m.headers) <> 'object'
            -- Headers that a reader's JSON parser cannot read.
            OR m.headers <> '{}' AND (
                jsonb_path_exists(m.headers, 'strict $.**{100} ? (@.type() == "array" || @.type() == "object")')
                OR jsonb_path_exists(m.headers, 'strict $.** ? (@.type() == "number") ? (@ > 1e308 || @ < -1e308)'))
            OR CASE WHEN m.header_bytes > 65536 THEN consign.compact_bytes(m.headers::text) > 65536 ELSE false END)
        INTO v_bytes, v_first
        -- OFFSET 0: each text is computed once.
        FROM (SELECT *, octet_length(u.payload::text) AS bytes, coalesce(octet_length(u.headers::text), 2) AS header_bytes
                  FROM unnest(p_payloads, p_keys, p_groups, p_headers)
                      WITH ORDINALITY AS u (payload, key, "group", headers, index) OFFSET 0) m;
    -- Only where something is wrong: a statement costs as much as all checks of a small message.
    IF v_first IS NOT NULL THEN
        SELECT coalesce(p_positions[v_first], v_first) - 1 AS index, m.bytes > v_bytes_max AS too_large, m.bytes,
               jsonb_path_exists(p_payloads[v_first], 'strict $.**{100} ? (@.type() == "array" || @.type() == "object")') AS is_deep,
               CASE WHEN p_payloads[v_first] IS NULL THEN 'payload is null; send a JSON document'
                    WHEN octet_length(p_keys[v_first]) NOT BETWEEN 1 AND 512
                        THEN 'key has ' || octet_length(p_keys[v_first]) || ' bytes; must be 1 to 512'
                    WHEN octet_length(p_groups[v_first]) NOT BETWEEN 1 AND 512
                        THEN 'group has ' || octet_length(p_groups[v_first]) || ' bytes; must be 1 to 512'
                    ELSE 'headers must be an object of at most 64 KiB and 100 levels whose numbers a double can hold' END AS fault
            INTO v_wrong
            FROM (SELECT consign.compact_bytes(p_payloads[v_first]::text) AS bytes) m;
        IF v_wrong.too_large THEN
            RAISE EXCEPTION 'message %: payload is % bytes, the queue allows %', v_wrong.index, v_wrong.bytes, v_bytes_max
                USING ERRCODE = 'CN005', HINT = 'Store the data elsewhere and send a reference, or raise payload_max_bytes.',
                      DETAIL = jsonb_build_object('queue', p_queue.name, 'index', v_wrong.index, 'bytes', v_wrong.bytes, 'bytes_max', v_bytes_max)::text;
        ELSIF v_wrong.is_deep THEN
            RAISE EXCEPTION 'message %: payload is nested more than 100 levels deep', v_wrong.index USING ERRCODE = 'CN006';
        END IF;
        RAISE EXCEPTION 'message %: %', v_wrong.index, v_wrong.fault USING ERRCODE = 'CN006';
    END IF;
    RETURN v_bytes;
END $$;
REVOKE ALL ON FUNCTION consign.check_messages(consign.queue, jsonb[], text[], text[], jsonb[], int[]) FROM PUBLIC;

-- When a message enqueued now is due, from its delay or the time it is due at; NULL: at once.
CREATE FUNCTION consign.due_time(p_now timestamptz, p_delay interval, p_at timestamptz, p_index int) RETURNS timestamptz
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF consign.exact(p_delay) NOT BETWEEN interval '0' AND interval '366 days' OR p_delay IS NULL AND p_at IS NULL THEN
        RAISE EXCEPTION 'delay must be from 0 to a year' USING ERRCODE = 'CN006';
    END IF;
    IF p_at IS NULL THEN
        RETURN nullif(p_now + p_delay, p_now);
    END IF;
    IF p_delay > interval '0' THEN
        RAISE EXCEPTION 'message %: at: is %, with a delay of %; a message is due after a delay or at a time: give one of them', p_index, p_at, p_delay
            USING ERRCODE = 'CN006';
    END IF;
    -- The same bound as AT_MAX in the kernel.
    IF p_at > p_now + interval '3660 days' THEN
        RAISE EXCEPTION 'message %: at: is %; must be at most ten years ahead', p_index, p_at USING ERRCODE = 'CN006';
    END IF;
    RETURN nullif(greatest(p_at, p_now), p_now);
END $$;
REVOKE ALL ON FUNCTION consign.due_time(timestamptz, interval, timestamptz, int) FROM PUBLIC;

-- SHA-256 of a payload, the same for equal payloads: numbers are equal by value, so the zeros that end a fraction are left
-- out. Of the text that jsonb has: `Payload::digest` in the kernel is of another text, and so another digest.
CREATE FUNCTION consign.digest(p_payload jsonb) RETURNS bytea
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on
    AS $$
DECLARE
    v_text text := p_payload::text;
BEGIN
    IF v_text ~ '\.\d*0(?!\d)' THEN
        v_text := regexp_replace(v_text, '("(?:[^"\\]|\\.)*")|\.0+(?!\d)|(\.\d*[1-9])0+(?!\d)', '\1\2', 'g');
    END IF;
    RETURN sha256(convert_to(v_text, 'UTF8'));
END $$;
REVOKE ALL ON FUNCTION consign.digest(jsonb) FROM PUBLIC;

-- The error for a key that another message has (CN002); p_id is NULL if that message is of the same call.
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

-- Makes a message the head of its group if there is none. False: it must wait.
--
-- The key-share lock keeps the row of the head from being deleted until this transaction ends, without blocking a settle
-- that promotes the next message: a later decision about the row sees every message that has started to wait.
CREATE FUNCTION consign.become_head(p_queue text, p_group text, p_id bigint) RETURNS boolean
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_head bigint;
BEGIN
    LOOP
        INSERT INTO consign.group_head (queue, "group", message_id) VALUES (p_queue, p_group, p_id)
            ON CONFLICT DO NOTHING;
        IF FOUND THEN
            RETURN true;
        END IF;
        SELECT message_id INTO v_head FROM consign.group_head
            WHERE queue = p_queue AND "group" = p_group FOR KEY SHARE;
        IF FOUND AND v_head = p_id THEN
            RETURN true;
        ELSIF FOUND AND v_head IS NOT NULL THEN
            RETURN false;
        ELSIF FOUND AND (
            EXISTS (SELECT FROM consign.waiting WHERE queue = p_queue AND "group" = p_group AND message_id < p_id)
            OR EXISTS (SELECT FROM consign.held WHERE queue = p_queue AND "group" = p_group AND message_id < p_id))
        THEN
            -- The head is open and an earlier message waits or is held: the next claim decides.
            RETURN false;
        ELSIF FOUND THEN
            UPDATE consign.group_head SET message_id = p_id
                WHERE queue = p_queue AND "group" = p_group AND message_id IS NULL;
            IF FOUND THEN
                RETURN true;
            END IF;
        END IF;
        -- The row vanished or changed between the statements: look again.
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION consign.become_head(text, text, bigint) FROM PUBLIC;

-- Of new messages (p_new, out of p_ids, of at most p_bytes together), those that are the head of their group; the others
-- are inserted into waiting.
CREATE FUNCTION consign.become_heads(p_queue text, p_new bigint[], p_ids bigint[], p_now timestamptz, p_dues timestamptz[],
                                     p_bytes bigint) RETURNS bigint[]
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_hashjoin = on
    AS $$
DECLARE
    v_ready   bigint[] := '{}';
    v_message record;
BEGIN
    -- Groups in one order everywhere, or two producers could wait for each other.
    FOR v_message IN
        SELECT m.id, m."group", coalesce(d.due_at, p_now) AS due_at
            FROM unnest(p_ids, p_dues) AS d (id, due_at) JOIN consign.message m ON m.id = d.id
            WHERE m.id = ANY (p_new) AND m.id BETWEEN consign.least_id(p_new) AND consign.greatest_id(p_new) ORDER BY m."group", m.id
    LOOP
        IF v_message."group" IS NULL OR consign.become_head(p_queue, v_message."group", v_message.id) THEN
            v_ready := v_ready || v_message.id;
        ELSE
            INSERT INTO consign.waiting (queue, "group", message_id, due_at, bytes, tries, attempts)
                VALUES (p_queue, v_message."group", v_message.id, v_message.due_at, p_bytes, 0, 0);
        END IF;
    END LOOP;
    RETURN ARRAY(SELECT u FROM unnest(v_ready) u ORDER BY u);
END $$;
REVOKE ALL ON FUNCTION consign.become_heads(text, bigint[], bigint[], timestamptz, timestamptz[], bigint) FROM PUBLIC;

-- Reserves ids for new messages. Reading consign.queue first locks it until the transaction ends: a session that has that table for
-- itself knows that no transaction will insert a message under an id from before.
CREATE FUNCTION consign.reserve_ids(p_count int) RETURNS bigint[]
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    PERFORM FROM consign.queue LIMIT 1;
    IF p_count = 1 THEN
        RETURN ARRAY[nextval('consign.message_id_seq')];
    END IF;
    RETURN ARRAY(SELECT nextval('consign.message_id_seq') FROM generate_series(1, p_count));
END $$;
REVOKE ALL ON FUNCTION consign.reserve_ids(int) FROM PUBLIC;

-- Enqueues messages of one queue; p_ids are ids reserved for them, or NULL. p_dues are when they are due, NULL for
-- at once.
--
-- p_positions are the messages' places in the caller's call, for errors; p_call_ids are all ids reserved for that call: a
-- key taken by one of them conflicts with a message that will not exist.
--
-- p_check: whether the queue's `check` hook decides about them; an app passes false for messages that it has made itself.
-- p_expiries: from when on each is not sent any more, or NULL; not looked at where a key names an earlier message.
CREATE FUNCTION consign.enqueue_numbered(p_queue text, p_ids bigint[], p_payloads jsonb[], p_keys text[], p_groups text[],
                                         p_headers jsonb[], p_dues timestamptz[], p_positions int[], p_call_ids bigint[],
                                         p_check boolean, p_expiries timestamptz[] DEFAULT NULL)
    RETURNS TABLE (id bigint, duplicate boolean, state text)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_queue    consign.queue := consign.known_queue(p_queue);
    v_ids      bigint[] := coalesce(p_ids, consign.reserve_ids(cardinality(p_payloads)));
    v_now      timestamptz := consign.clock();
    v_new      bigint[] := v_ids;
    -- Of every message, the one that has its key, and whether that died; NULL if all are new.
    v_holders  bigint[];
    v_left_as     text[];
    v_taken    bigint;
    v_found    boolean;
    v_ready    bigint[];
    v_zeros    int[];
    v_bytes    bigint;
    v_conflict int;
    v_wrong    record;
BEGIN
    IF p_check AND v_queue.hooks ? 'check' THEN
        EXECUTE format('SELECT %s($1, $2, $3, $4, $5, $6)', v_queue.hooks->>'check')
            USING p_queue, v_ids, p_keys, p_groups, p_payloads, p_headers;
    END IF;
    v_bytes := consign.check_messages(v_queue, p_payloads, p_keys, p_groups, p_headers, p_positions);
    IF num_nonnulls(VARIADIC p_keys) > 0 THEN
        -- Again if a key was forgotten after the insert had met it.
        LOOP
            INSERT INTO consign.message_key (queue, key, message_id, at, digest, "group")
                SELECT p_queue, m.key, m.id, v_now, consign.digest(m.payload), m."group"
                    FROM unnest(v_ids, p_payloads, p_keys, p_groups) AS m (id, payload, key, "group")
                    -- Keys in one order everywhere, or two producers could wait for each other.
                    WHERE m.key IS NOT NULL ORDER BY m.key, m.id
                ON CONFLICT DO NOTHING;
            GET DIAGNOSTICS v_taken = ROW_COUNT;
            EXIT WHEN v_taken = num_nonnulls(VARIADIC p_keys);
            -- Locks the table until the transaction ends: no message that has one of the keys leaves between the reading of the
            -- key and that of the message's state, which would be answered as delivered although it died.
            PERFORM FROM consign.message WHERE false;
            SELECT array_agg(coalesce(t.message_id, m.id) ORDER BY m.ord),
                   array_agg(CASE WHEN t.discarded THEN 'discarded' WHEN t.died THEN 'dead' ELSE 'delivered' END ORDER BY m.ord),
                   bool_and(m.key IS NULL OR t.message_id IS NOT NULL),
                   min(m.ord) FILTER (WHERE t.message_id <> m.id AND (t.digest <> consign.digest(m.payload) OR t."group" IS DISTINCT FROM m."group"))
                INTO v_holders, v_left_as, v_found, v_conflict
                FROM unnest(v_ids, p_payloads, p_keys, p_groups) WITH ORDINALITY AS m (id, payload, key, "group", ord)
                LEFT JOIN consign.message_key t ON t.queue = p_queue AND t.key = m.key;
            EXIT WHEN v_found;
        END LOOP;
    END IF;
    IF v_holders IS NOT NULL THEN
        v_new := ARRAY(SELECT h.id FROM unnest(v_ids, v_holders) AS h (id, holder) WHERE h.id = h.holder ORDER BY h.id);
        IF v_conflict IS NOT NULL THEN
            PERFORM consign.refuse_conflict(p_queue, p_keys[v_conflict],
                                            CASE WHEN NOT v_holders[v_conflict] = ANY (coalesce(p_call_ids, v_ids)) THEN v_holders[v_conflict] END);
        END IF;
    END IF;
    IF num_nonnulls(VARIADIC p_expiries) > 0 THEN
        SELECT coalesce(p_positions[m.ord], m.ord) - 1 AS index, m.expires_at, coalesce(m.due_at, v_now) AS due_at INTO v_wrong
            FROM unnest(v_ids, p_dues, p_expiries) WITH ORDINALITY AS m (id, due_at, expires_at, ord)
            WHERE m.id = ANY (v_new) AND (m.expires_at <= coalesce(m.due_at, v_now) OR m.expires_at > v_now + interval '3660 days')
            ORDER BY m.ord LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION 'message %: expires_at: is %; must be after the message is due, %, and at most ten years ahead',
                    v_wrong.index, v_wrong.expires_at, v_wrong.due_at
                USING ERRCODE = 'CN006';
        END IF;
    END IF;
    INSERT INTO consign.message (id, created_at, queue, key, "group", payload, headers, expires_at)
        SELECT m.id, v_now, p_queue, m.key, m."group", m.payload, coalesce(m.headers, '{}'), m.expires_at
            FROM unnest(v_ids, p_payloads, p_keys, p_groups, p_headers, p_expiries) AS m (id, payload, key, "group", headers, expires_at)
            WHERE cardinality(v_new) = cardinality(v_ids) OR m.id = ANY (v_new)
            ORDER BY m.id;

    v_ready := v_new;
    IF (v_queue.policy->>'ordered')::boolean AND p_groups IS NOT NULL THEN
        v_ready := consign.become_heads(p_queue, v_new, v_ids, v_now, p_dues, v_bytes);
    END IF;
    IF cardinality(v_ready) > 0 AND p_dues IS NULL THEN
        v_zeros := array_fill(0, ARRAY[cardinality(v_ready)]);
        PERFORM consign.make_ready(p_queue, v_now, v_ready, v_zeros, v_zeros, false, v_bytes);
    ELSIF cardinality(v_ready) > 0 THEN
        -- One batch per time, in order of first appearance.
        PERFORM consign.make_ready(p_queue, batch.due_at, batch.ids, array_fill(0, ARRAY[cardinality(batch.ids)]),
                                   array_fill(0, ARRAY[cardinality(batch.ids)]), false, v_bytes)
            FROM (SELECT coalesce(m.due_at, v_now) AS due_at, array_agg(m.id ORDER BY m.id) AS ids
                      FROM unnest(v_ids, p_dues) AS m (id, due_at) WHERE m.id = ANY (v_ready)
                      GROUP BY 1 ORDER BY min(m.id)) batch;
    END IF;
    IF v_queue.hooks ? 'enqueued' AND cardinality(v_new) > 0 THEN
        EXECUTE format('SELECT %s($1, $2)', v_queue.hooks->>'enqueued') USING p_queue, v_new;
    END IF;
    IF v_ready = v_ids THEN
        RETURN QUERY SELECT u, false, 'ready' FROM unnest(v_ids) u;
        RETURN;
    END IF;
    RETURN QUERY
        SELECT m.holder, m.holder <> m.id,
               -- A message that has left did so as its key says.
               coalesce(consign.state_of(m.holder), m.left_as)
        FROM unnest(v_ids, coalesce(v_holders, v_ids), v_left_as) WITH ORDINALITY AS m (id, holder, left_as, ord)
        ORDER BY m.ord;
    IF v_holders IS NOT NULL AND current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM consign.require_current_ranges(v_holders);
    END IF;
END $$;
REVOKE ALL ON FUNCTION consign.enqueue_numbered(text, bigint[], jsonb[], text[], text[], jsonb[], timestamptz[], int[], bigint[], boolean, timestamptz[]) FROM PUBLIC;

-- Inserts a message with its key, which must be free. For apps that place the message themselves.
CREATE FUNCTION consign.insert_message(p_message consign.message) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF p_message.key IS NOT NULL THEN
        INSERT INTO consign.message_key (queue, key, message_id, at, digest, "group")
            VALUES (p_message.queue, p_message.key, p_message.id, p_message.created_at, consign.digest(p_message.payload), p_message."group");
    END IF;
    INSERT INTO consign.message VALUES (p_message.*);
END $$;
REVOKE ALL ON FUNCTION consign.insert_message(consign.message) FROM PUBLIC;

-- Rejects parallel arrays of another length than the payloads: unnest would fill them with NULLs, and a message would
-- lose its key.
CREATE FUNCTION consign.require_same_length(p_payloads jsonb[], VARIADIC p_lengths int[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF EXISTS (SELECT FROM unnest(p_lengths) n WHERE n <> coalesce(cardinality(p_payloads), 0)) THEN
        RAISE EXCEPTION 'messages: keys, groups, headers, queues, delays, times and expiries must be NULL or as many as the payloads'
            USING ERRCODE = 'CN006';
    END IF;
END $$;
REVOKE ALL ON FUNCTION consign.require_same_length(jsonb[], int[]) FROM PUBLIC;

-- Enqueues many messages of one queue: all or none, in the order given; due after p_delay, or at p_at. From p_expires_at on
-- they are not sent any more.
--
-- A repeated key with the same payload and group returns the first message and writes nothing; with another payload or
-- group it is an error (CN002).
CREATE FUNCTION consign.enqueue_many(p_queue text, p_payloads jsonb[], p_keys text[] DEFAULT NULL,
                                     p_groups text[] DEFAULT NULL, p_headers jsonb[] DEFAULT NULL,
                                     p_delay interval DEFAULT '0', p_at timestamptz DEFAULT NULL,
                                     p_expires_at timestamptz DEFAULT NULL)
    RETURNS TABLE (id bigint, duplicate boolean, state text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET jit = off
    SET plan_cache_mode = force_generic_plan
    AS $$
BEGIN
    PERFORM consign.require_same_length(p_payloads, cardinality(p_keys), cardinality(p_groups), cardinality(p_headers));
    RETURN QUERY SELECT * FROM consign.enqueue_numbered(
        p_queue, NULL, p_payloads, p_keys, p_groups, p_headers,
        -- Nothing is called for a message that is due at once. As text, in each style: years and days cancel out in a comparison.
        CASE WHEN p_delay::text IN ('00:00:00', '@ 0', '0', 'PT0S') AND p_at IS NULL THEN NULL
             ELSE array_fill(consign.due_time(consign.clock(), p_delay, p_at, 0), ARRAY[coalesce(cardinality(p_payloads), 0)]) END,
        NULL, NULL, true,
        CASE WHEN p_expires_at IS NOT NULL THEN array_fill(p_expires_at, ARRAY[coalesce(cardinality(p_payloads), 0)]) END);
END $$;
REVOKE ALL ON FUNCTION consign.enqueue_many(text, jsonb[], text[], text[], jsonb[], interval, timestamptz, timestamptz) FROM PUBLIC;

-- Enqueues messages of several queues and times: all or none, in the order given. NULL in p_ats: after the delay; in
-- p_expiries: sent at any time.
CREATE FUNCTION consign.enqueue_mixed(p_queues text[], p_payloads jsonb[], p_keys text[], p_groups text[],
                                      p_headers jsonb[], p_delays interval[], p_ats timestamptz[] DEFAULT NULL,
                                      p_expiries timestamptz[] DEFAULT NULL)
    RETURNS TABLE (id bigint, duplicate boolean, state text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET jit = off
    SET plan_cache_mode = force_generic_plan
    AS $$
DECLARE
    v_now       timestamptz := consign.clock();
    v_ids       bigint[];
    v_batch     record;
    v_answer    record;
    v_made      bigint[] := '{}';
    v_positions int[] := '{}';
    v_duplicate boolean[] := '{}';
    v_states    text[] := '{}';
BEGIN
    PERFORM consign.require_same_length(p_payloads, coalesce(cardinality(p_queues), -1), coalesce(cardinality(p_delays), -1),
                                        cardinality(p_keys), cardinality(p_groups), cardinality(p_headers), cardinality(p_ats),
                                        cardinality(p_expiries));
    PERFORM consign.known_queue(u) FROM (SELECT DISTINCT u FROM unnest(p_queues) u) queues;
    v_ids := consign.reserve_ids(cardinality(p_payloads));
    -- Queues are not enqueued in the order of the messages, but the error names the first conflict by that order. A queue
    -- with a `check` hook runs the hook first: it must not reveal which keys are taken.
    PERFORM consign.refuse_conflict(c.queue, c.key, c.id)
        FROM (SELECT m.queue, m.key, t.message_id AS id
                  FROM (SELECT u.*, first_value(u.payload) OVER twins AS first_payload,
                               first_value(u."group") OVER twins AS first_group
                            FROM unnest(p_queues, p_payloads, p_keys, p_groups)
                                WITH ORDINALITY AS u (queue, payload, key, "group", ord)
                            WHERE u.key IS NOT NULL AND NOT EXISTS (SELECT FROM consign.queue q WHERE q.name = u.queue AND q.hooks ? 'check')
                            WINDOW twins AS (PARTITION BY u.queue, u.key ORDER BY u.ord)) m
                  LEFT JOIN consign.message_key t ON t.queue = m.queue AND t.key = m.key
                  WHERE CASE WHEN t.message_id IS NULL THEN m.first_payload <> m.payload ELSE t.digest <> consign.digest(m.payload) END
                      OR CASE WHEN t.message_id IS NULL THEN m.first_group ELSE t."group" END IS DISTINCT FROM m."group"
                  ORDER BY m.ord LIMIT 1) c;
    -- One call for each queue, in one order everywhere, or two producers could wait for each other.
    FOR v_batch IN
        SELECT m.queue, array_agg(m.due_at ORDER BY m.ord) AS dues, array_agg(m.ord ORDER BY m.ord) AS places,
               array_agg(m.id ORDER BY m.ord) AS ids, array_agg(m.payload ORDER BY m.ord) AS payloads,
               array_agg(m.key ORDER BY m.ord) AS keys, array_agg(m."group" ORDER BY m.ord) AS groups,
               array_agg(m.headers ORDER BY m.ord) AS headers,
               CASE WHEN count(m.expires_at) > 0 THEN array_agg(m.expires_at ORDER BY m.ord) END AS expiries
            FROM (SELECT u.*, consign.due_time(v_now, u.delay, u.at, u.ord::int - 1) AS due_at
                      FROM unnest(v_ids, p_queues, p_payloads, p_keys, p_groups, p_headers, p_delays, p_ats, p_expiries)
                          WITH ORDINALITY AS u (id, queue, payload, key, "group", headers, delay, at, expires_at, ord)) m
            GROUP BY m.queue ORDER BY m.queue
    LOOP
        FOR v_answer IN
            SELECT a.id, a.duplicate, a.state, v_batch.places[a.ord] AS place
                FROM consign.enqueue_numbered(
                    v_batch.queue, v_batch.ids, v_batch.payloads, v_batch.keys, v_batch.groups, v_batch.headers,
                    v_batch.dues, v_batch.places::int[], v_ids, true, v_batch.expiries) WITH ORDINALITY AS a (id, duplicate, state, ord)
        LOOP
            v_made := v_made || v_answer.id;
            v_positions := v_positions || v_answer.place::int;
            v_duplicate := v_duplicate || v_answer.duplicate;
            v_states := v_states || v_answer.state;
        END LOOP;
    END LOOP;
    RETURN QUERY SELECT a.id, a.duplicate, a.state
        FROM unnest(v_made, v_positions, v_duplicate, v_states) AS a (id, place, duplicate, state) ORDER BY a.place;
END $$;
REVOKE ALL ON FUNCTION consign.enqueue_mixed(text[], jsonb[], text[], text[], jsonb[], interval[], timestamptz[], timestamptz[]) FROM PUBLIC;

-- Enqueues one message, due after p_delay or at p_at, and returns its id. From p_expires_at on it is not sent any more.
CREATE FUNCTION consign.enqueue(p_queue text, p_payload jsonb, p_key text DEFAULT NULL, p_group text DEFAULT NULL,
                                p_headers jsonb DEFAULT '{}', p_delay interval DEFAULT '0', p_at timestamptz DEFAULT NULL,
                                p_expires_at timestamptz DEFAULT NULL)
    RETURNS bigint
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT id FROM consign.enqueue_many(p_queue, ARRAY[p_payload], ARRAY[p_key], ARRAY[p_group], ARRAY[p_headers], p_delay, p_at,
                                        p_expires_at)
    $$;
REVOKE ALL ON FUNCTION consign.enqueue(text, jsonb, text, text, jsonb, interval, timestamptz, timestamptz) FROM PUBLIC;
